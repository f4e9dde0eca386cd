"""Every rule of the job file has a line in the table."""

from typing import get_args

from spotgrad.merging import vc_asgd
from spotgrad.merging.coefficients import Coefficients, Contribution
from spotgrad.merging.rule import RULES, decide
from spotgrad.protocol.job import VcAsgd


def test_the_table_holds_the_rules_of_the_job_file_and_no_other() -> None:
    assert set(RULES) == set(get_args(VcAsgd.model_fields["rule"].annotation))


def test_decide_asks_the_rule_that_the_job_names() -> None:
    batch = [Contribution(epoch=1, staleness=3, samples=90)]

    decided = decide(VcAsgd(alpha=0.75), batch)

    assert decided == vc_asgd.coefficients(VcAsgd(alpha=0.75), batch)
    assert decided == Coefficients(server=0.75, clients=(0.25,))

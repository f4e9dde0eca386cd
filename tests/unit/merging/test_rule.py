"""Every rule of the job file has a line in the table."""

from typing import get_args

from spotgrad.merging import vc_asgd
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.merging.rule import RULES, decide
from spotgrad.protocol.merge import VcAsgd
from tests.builders import job_plan


def test_the_table_holds_the_rules_of_the_job_file_and_no_other() -> None:
    assert set(RULES) == set(get_args(VcAsgd.model_fields["rule"].annotation))


def test_decide_asks_the_rule_that_the_job_names() -> None:
    batch = [Contribution(epoch=1, staleness=3, samples=90)]
    spec = job_plan(merge={"alpha": 0.75}).spec

    decided = decide(spec, Occasion(), batch)

    assert decided == vc_asgd.recipe(VcAsgd(alpha=0.75), Occasion(), batch)
    assert decided.weights("server") == {"server": 0.75, "client-0": 0.25}

"""Every rule of the job file has a line in the table."""

from typing import get_args

from spotgrad.merging import vc_asgd
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.merging.rule import RULES, decide, first_objects
from spotgrad.protocol.merge import AnyRule, VcAsgd
from tests.builders import job_plan


def test_the_table_holds_the_rules_of_the_job_file_and_no_other() -> None:
    kinds = get_args(AnyRule)
    named = [get_args(kind.model_fields["rule"].annotation) for kind in kinds]
    assert [*RULES] == [name for names in named for name in names]


def test_decide_asks_the_rule_that_the_job_names() -> None:
    batch = [Contribution(epoch=1, staleness=3, samples=90)]
    spec = job_plan(merge={"alpha": 0.75}).spec

    decided = decide(spec, Occasion(), batch)

    assert decided == vc_asgd.recipe(VcAsgd(alpha=0.75), Occasion(), batch)
    assert decided.weights("server") == {"server": 0.75, "client-0": 0.25}


def test_an_ema_is_one_more_output_of_any_rule() -> None:
    batch = [Contribution(epoch=1, staleness=3, samples=90)]
    for rule in ("vc-asgd", "dc-asgd", "delayed-nesterov"):
        spec = job_plan(merge={"rule": rule, "ema": 0.9}).spec
        assert decide(spec, Occasion(), batch).weights("ema") == {"merged": 1.0}
        assert first_objects(spec.merge) == ("server", "ema")
    assert first_objects(VcAsgd()) == ("server",)

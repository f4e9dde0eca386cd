"""Optimizer sections: defaults, what is refused, and how the refusal reads."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from spotgrad.protocol.optimizer import AdamWStep, LambStep, OptimizerStep, SgdStep

SECTIONS: TypeAdapter[Any] = TypeAdapter(OptimizerStep)


def section(**fields: Any) -> Any:
    return SECTIONS.validate_python(fields)


def test_the_name_chooses_the_optimizer() -> None:
    assert section(name="sgd", lr=0.1) == SgdStep(name="sgd", lr=0.1)
    assert section(name="adamw") == AdamWStep(name="adamw")
    assert section(name="lamb") == LambStep(name="lamb")


def test_lamb_s_defaults_are_those_of_the_albert_runs() -> None:
    found = section(name="lamb").model_dump()
    wanted = {"lr": 0.00176, "weight_decay": 0.01, "eps": 1e-6, "clamp": 10_000.0}
    assert found.items() >= wanted.items()
    assert (found["max_grad_norm"], found["decay_vectors"]) == (1.0, False)


def test_a_section_comes_back_from_its_json() -> None:
    schedule = {"shape": "cosine", "warmup_steps": 5, "total_steps": 9, "floor": 0.01}
    made = section(name="lamb", lr=0.1, schedule=schedule, max_grad_norm=None)
    assert SECTIONS.validate_json(made.model_dump_json()) == made


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": "adagrad"}, "'adagrad' found using 'name' does not match any of the expected"),
        ({"name": "sgd"}, "Field required"),
        ({"name": "sgd", "lr": 0}, "greater than 0"),
        ({"name": "sgd", "lr": True}, "a number is needed, not a boolean"),
        ({"name": "sgd", "lr": float("inf")}, "finite number"),
        ({"name": "sgd", "lr": 1, "momentum": 1}, "less than 1"),
        ({"name": "sgd", "lr": 1, "nesterov": True}, "nesterov needs a momentum above 0"),
        ({"name": "sgd", "lr": 1, "dampening": 0.1}, "Extra inputs are not permitted"),
        ({"name": "adamw", "betas": [0.9, 1]}, "less than 1"),
        ({"name": "adamw", "eps": 0}, "greater than 0"),
        ({"name": "adamw", "weight_decay": -1}, "greater than or equal to 0"),
        ({"name": "lamb", "clamp": 0}, "greater than 0"),
        ({"name": "lamb", "max_grad_norm": 0}, "greater than 0"),
    ],
)
def test_what_no_optimizer_can_do_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        section(**fields)


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        ({"total_steps": 9}, 'shape "constant" has no end: leave out total_steps and floor'),
        ({"floor": 0.1}, 'shape "constant" has no end'),
        ({"shape": "linear"}, 'shape "linear" needs total_steps: where it ends'),
        (
            {"shape": "cosine", "total_steps": 5, "warmup_steps": 5},
            "total_steps: 5 must be above warmup_steps: 5",
        ),
        ({"warmup_from": 0.1}, r"warmup_from: 0\.1 needs warmup_steps above 0"),
        ({"shape": "linear", "total_steps": 2, "floor": 3}, r"schedule\.floor: 3 is above lr: 1"),
        ({"warmup_steps": 2, "warmup_from": 3}, r"schedule\.warmup_from: 3 is above lr: 1"),
        ({"shape": "steps"}, "Input should be 'constant', 'linear' or 'cosine'"),
        ({"warmup_steps": -1}, "greater than or equal to 0"),
    ],
)
def test_a_schedule_that_contradicts_itself_is_refused(schedule: Any, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        section(name="sgd", lr=1, schedule=schedule)

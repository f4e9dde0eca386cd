"""Sections of the job file as numbers; what comes out is enough for the block function."""

from typing import Any

import numpy as np
import pytest

from spotgrad.merging.kernel import follow
from spotgrad.merging.optimizers.told import numbers_of, objects_of
from spotgrad.protocol.optimizer import AdamWStep, AnyStep, LambStep, RateSchedule, SgdStep
from spotgrad.protocol.recipe import Blend, Recipe

SCHEDULE = RateSchedule(warmup_steps=4)


def test_sgd_s() -> None:
    section = SgdStep(name="sgd", lr=0.4, momentum=0.9, nesterov=True, schedule=SCHEDULE)
    assert numbers_of(section, 2) == {
        "lr": (0.2,),
        "t": (2.0,),
        "max_grad_norm": (),
        "weight_decay": (0.0,),
        "decay_vectors": (1.0,),
        "momentum": (0.9,),
        "nesterov": (1.0,),
    }


def test_adamw_s() -> None:
    assert numbers_of(AdamWStep(name="adamw"), 7) == {
        "lr": (0.001,),
        "t": (7.0,),
        "max_grad_norm": (),
        "weight_decay": (0.01,),
        "decay_vectors": (1.0,),
        "betas": (0.9, 0.999),
        "eps": (1e-8,),
    }


def test_lamb_s() -> None:
    assert numbers_of(LambStep(name="lamb"), 1) == {
        "lr": (0.00176,),
        "t": (1.0,),
        "max_grad_norm": (1.0,),
        "weight_decay": (0.01,),
        "decay_vectors": (0.0,),
        "betas": (0.9, 0.999),
        "eps": (1e-6,),
        "clamp": (10_000.0,),
        "bias_correction": (1.0,),
    }


@pytest.mark.parametrize(
    ("section", "kept"),
    [
        (SgdStep(name="sgd", lr=0.1), ()),
        (SgdStep(name="sgd", lr=0.1, momentum=0.9), ("momentum",)),
        (AdamWStep(name="adamw"), ("exp_avg", "exp_avg_sq")),
        (LambStep(name="lamb"), ("exp_avg", "exp_avg_sq")),
    ],
)
def test_a_recipe_of_them_moves_the_server_and_writes_what_is_kept(
    section: AnyStep, kept: tuple[str, ...]
) -> None:
    assert objects_of(section) == kept
    outputs: dict[str, Any] = {"server": Blend(buffers={"server": 1.0})}
    recipe = Recipe(
        outputs=outputs | {name: Blend() for name in kept},
        function=section.name,
        numbers=numbers_of(section, 1) | {"gradient/client-0": (1.0,)},
    )
    server, client = np.full((2, 2), 2.0, np.float32), np.full((2, 2), 0.5, np.float32)
    made = follow(recipe, {"server": {"w": server}, "client-0": {"w": client}}, {})
    assert set(made) == {"server", *kept}
    assert (made["server"]["w"] < 2.0).all()

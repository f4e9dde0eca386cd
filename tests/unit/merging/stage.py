"""A stage for merge rules: results come in, one by one or in batches, and objects change.

The product's rule and kernel, on small arrays; which version a result began from, and how stale it
is, follows from a script that is fixed. Nothing here asserts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spotgrad.merging.kernel import follow
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.merging.rule import decide, first_objects
from spotgrad.protocol.job import JobSpec
from spotgrad.protocol.recipe import SERVER, Closing, Recipe, base, client
from spotgrad.protocol.result import Role

Arrays = Mapping[str, NDArray[Any]]
ROLES: dict[str, Role] = {"w": "parameter", "bn": "buffer"}


@dataclass(frozen=True)
class Result:
    """One result: what it brings, and how many results the version that it began from held."""

    epoch: int
    began: int
    samples: int
    tensors: Arrays


@dataclass
class Stage:
    """The objects of a job, as merges change them."""

    spec: JobSpec
    first: Arrays
    merged: int = 0
    version: int = 0
    tally: Mapping[str, float] = field(default_factory=dict)
    recipes: list[Recipe] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.objects: dict[str, Arrays] = dict.fromkeys(first_objects(self.spec.merge), self.first)
        self.versions = {0: (0, self.first)}

    def merge(
        self, batch: Sequence[Result], *, last: bool = False, closes: Closing | None = None
    ) -> None:
        """Merge a batch, as ``aggregate`` would."""
        found = [self._began(one) for one in batch]
        contributions = [
            Contribution(one.epoch, self.merged + j - one.began, one.samples, self.version - number)
            for j, (one, (number, _)) in enumerate(zip(batch, found, strict=True))
        ]
        names = frozenset(self.objects)
        occasion = Occasion(self.spec.in_flight, names, self.tally, last, closes=closes)
        recipe = decide(self.spec, occasion, contributions)
        inputs = self.objects | {client(j): one.tensors for j, one in enumerate(batch)}
        inputs |= {base(j): tensors for j, (_, tensors) in enumerate(found)}
        made = follow(recipe, inputs, ROLES)
        kept = {name: one for name, one in self.objects.items() if name not in recipe.drops}
        self.objects, self.tally = kept | made, recipe.tally
        self.merged += len(batch)
        self.version += SERVER in made
        self.versions[self.merged] = self.version, self.objects[SERVER]
        self.recipes.append(recipe)

    def _began(self, one: Result) -> tuple[int, Arrays]:
        return self.versions[max(held for held in self.versions if held <= one.began)]


def spec_of(in_flight: int = 4, **merge: Any) -> JobSpec:
    """Return a job with this merge section."""
    return JobSpec.model_validate(
        {
            "name": "d",
            "task": "m:T",
            "dataset": "d",
            "epochs": 4,
            "merge": merge,
            "workers": {"max": in_flight},
        }
    )


def script(
    count: int, size: int = 5, in_flight: int = 4, shards: int = 6, fresh_every: int = 5
) -> Iterator[Result]:
    """Yield results of constants in [-1/8, 1/8); most are ``in_flight`` - 1 stale."""
    for step in range(count):
        values = [((37 * step + 11 * place) % 64 - 32) / 256 for place in range(size)]
        spread = [((13 * step + 5 * place) % 32) / 16 for place in range(2)]
        tensors = {"w": np.array(values, np.float32), "bn": np.array(spread, np.float32)}
        stale = 0 if step % fresh_every == 0 else in_flight - 1
        yield Result(step // shards + 1, max(0, step - stale), 10 + step % 3, tensors)


def came(seed: int, count: int) -> list[Result]:
    """Return results of one epoch that began from version 0, drawn by ``seed``."""
    draw = np.random.default_rng(seed)
    return [
        Result(
            epoch=1,
            began=0,
            samples=int(draw.integers(1, 500)),
            tensors={
                "w": draw.standard_normal(20).astype(np.float32),
                "bn": draw.random(3).astype(np.float32),
            },
        )
        for _ in range(count)
    ]


def start(size: int = 5) -> Arrays:
    """Return the parameters and buffers of version 0."""
    values = np.array([place / 16 - 1 / 8 for place in range(size)], np.float32)
    return {"w": values, "bn": np.array([0.5, 1.0], np.float32)}

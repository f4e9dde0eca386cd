"""What the experiments share: images, shards, model and the client's recipe, as a job file has it.

Two sizes: ``full`` is what ``docs/reproduction.md`` is made of, ``small`` what CI runs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.reproduce.images import digits, fashion
from spotgrad.planning.sharding import Arrays
from spotgrad.protocol.job import JobSpec

NAME = "clothes"
SEED = 0


@dataclass(frozen=True)
class Study:
    """The scale of every experiment."""

    name: str
    pixels: int
    hidden: int
    shards: int
    epochs: int
    short_epochs: int
    """Of each run where there are many: all rules, and PxCyTz."""
    batch_size: int
    lr: float
    single_lr: float
    """Of the machine that trains alone."""
    goal: float
    """The accuracy that the comparison of rules takes the time to."""
    glance: int
    """Images of a measurement after every single merge."""
    load: Callable[[], Mapping[str, Arrays]]

    def job(self, merge: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
        """Return a job file's content; ``in_flight``, ``epochs`` and other fields as changes."""
        in_flight = changes.pop("in_flight", 1)
        return {
            "name": NAME,
            "task": "clothes_task:Perceptron",
            "args": {"pixels": self.pixels, "hidden": self.hidden},
            "dataset": NAME,
            "epochs": self.epochs,
            "seed": SEED,
            "merge": dict(merge),
            "local": self._local(changes.pop("lr", self.lr)),
            "workers": {"max": in_flight},
            "schedule": {"issue": "barrier", "max_in_flight": in_flight},
            "evaluate": {"every_epochs": 1, "split": "validation"},
            **changes,
        }

    def spec(self, merge: Mapping[str, Any], **changes: Any) -> JobSpec:
        """Return the same, validated."""
        return JobSpec.model_validate(self.job(merge, **changes))

    def shrunk(self, **changes: Any) -> "Study":
        """Return a study with other numbers."""
        return replace(self, **changes)

    def _local(self, lr: float) -> dict[str, Any]:
        optimizer = {"name": "sgd", "lr": lr, "momentum": 0.9}
        return {"passes": 1, "batch_size": self.batch_size, "optimizer": optimizer}


def full(data: Path) -> Study:
    """Return 50 shards of 200 images, 40 epochs: the paper's 2,000 subtasks, smaller shards."""
    return Study(
        name="Fashion-MNIST, 10,000 training images of 14 x 14",
        pixels=196,
        hidden=64,
        shards=50,
        epochs=40,
        short_epochs=12,
        batch_size=40,
        lr=0.1,
        single_lr=0.05,
        goal=0.80,
        glance=1000,
        load=lambda: fashion(data, 10_000),
    )


def small() -> Study:
    """Return the digits in 12 shards, a few epochs."""
    return Study(
        name="scikit-learn's digits, 1,437 training images",
        pixels=64,
        hidden=32,
        shards=12,
        epochs=4,
        short_epochs=2,
        batch_size=20,
        lr=0.1,
        single_lr=0.05,
        goal=0.85,
        glance=360,
        load=digits,
    )

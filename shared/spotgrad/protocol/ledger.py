"""One entry per commit: what it changed, in which order, with which coefficients.

The chain (each entry names its predecessor) is the proof that ``audit`` reads and the recipe that
``replay`` follows: coefficients are recorded, so no merge rule is needed to rebuild a version.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from pydantic import Field

from spotgrad.protocol.head import DeadSubtask, JobState, ObjectRef, WorkItem
from spotgrad.protocol.job import JobName
from spotgrad.protocol.keys import ModelKey
from spotgrad.protocol.recipe import SERVER, Blend, Closing, Recipe, client
from spotgrad.protocol.result import Base
from spotgrad.protocol.wire import Document, Finite, Identifier, Sha256


class MergedResult(WorkItem):
    """A result that entered the server copy with this coefficient."""

    attempt: Identifier
    key: str
    sha256: Sha256
    samples: int
    staleness: int = Field(ge=0)
    base: Base
    coefficient: Finite
    """Its weight in the server copy: 0 where it entered another object alone, or a function."""
    update_norm: Finite


class SetAside(WorkItem):
    """A result that was refused, or that reports a failure: never merged."""

    attempt: Identifier
    key: str
    reason: str


class LedgerEntry(Document):
    """``state/<job>/ledger/<revision>-<commit>.json``."""

    what: ClassVar[str] = "ledger entry"

    job: JobName
    run: Identifier
    revision: int = Field(ge=0)
    commit: Identifier
    previous: str | None
    at: datetime
    state: JobState
    version: int | None
    results_merged: int
    start: ObjectRef | None = None
    """The server copy that was merged into; nothing for the first version."""
    server: ObjectRef | None = None
    """The new server copy, when this commit made a version."""
    objects_before: dict[str, ObjectRef] = Field(default_factory=dict)
    """What the merge found beside the server copy: the rule's momentum, buffer and so on."""
    objects: dict[str, ObjectRef] = Field(default_factory=dict)
    """What this commit wrote beside the server copy."""
    server_coefficient: Finite | None = None
    recipe: Recipe | None = None
    """How it was merged, where the coefficients of server and results alone do not say it all."""
    last: bool = False
    """Whether the rule was told that nothing would be merged after this."""
    closes: Closing | None = None
    """What of a synchronous round the rule was told to close."""
    initialized_from: SetAside | None = None
    merged: tuple[MergedResult, ...] = ()
    refused: tuple[SetAside, ...] = ()
    failed: tuple[SetAside, ...] = ()
    evaluated: tuple[SetAside, ...] = ()
    late: tuple[SetAside, ...] = ()
    """Gradients at a version that the model had left behind."""
    compared: tuple[SetAside, ...] = ()
    """Results of a merged subtask's check, and what came of them."""
    dead: tuple[DeadSubtask, ...] = ()
    redriven: tuple[WorkItem, ...] = ()
    """Subtasks that were dead and are tried again."""
    dropped: tuple[WorkItem, ...] = ()
    """Subtasks that the round which this commit closes did not wait for."""
    closed_epochs: tuple[int, ...] = ()
    issued: tuple[WorkItem, ...] = ()

    @property
    def merges(self) -> bool:
        """Return whether the rule was asked: a round may close without a result of its own."""
        return bool(self.merged) or self.closes is not None

    @property
    def written(self) -> dict[str, ObjectRef]:
        """Return every object that this commit wrote, by name."""
        return ({} if self.server is None else {SERVER: self.server}) | self.objects

    @property
    def made(self) -> str:
        """Return what this commit made, in words."""
        return f"version {self.version}" if self.server else f"revision {self.revision}"

    @property
    def base_keys(self) -> tuple[str, ...]:
        """Return the keys of the older versions that this merge reads."""
        recipe = self.recipe
        if recipe is None:
            return ()
        return tuple(
            self.base_key(number)
            for number, _ in enumerate(self.merged)
            if recipe.needs_base(number)
        )

    def base_key(self, number: int) -> str:
        """Return the key of the version that the batch's ``number``-th result began from."""
        began = self.merged[number].base
        return ModelKey(self.job, began.version, began.commit).render()

    @property
    def followed(self) -> Recipe | None:
        """Return the recipe by which this commit merged; None when it merged nothing."""
        if self.recipe is not None or self.server_coefficient is None:
            return self.recipe
        return plain_recipe(self.server_coefficient, [row.coefficient for row in self.merged])


def plain_recipe(server: float, clients: Sequence[float]) -> Recipe:
    """Return the recipe that these coefficients alone describe: most rules need no other."""
    weights = {SERVER: server} | {client(number): one for number, one in enumerate(clients)}
    return Recipe(outputs={SERVER: Blend(parameters=weights, buffers=weights)})

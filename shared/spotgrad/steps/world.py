"""The ports that a step is given, as one value; steps fetch nothing themselves.

What never changes once it is written (plans, model versions, one state of an attempt record) is
remembered between steps, because a function stays warm. Not for several threads at once: each has
a world of its own.
"""

from dataclasses import dataclass
from functools import cached_property

from spotgrad.ports import Clock, NewId, ObjectStore, TaskSender
from spotgrad.steps.attempt_reader import AttemptReader
from spotgrad.steps.documents import PlanReader
from spotgrad.steps.model_file import ModelReader


@dataclass(frozen=True)
class World:
    """A store, the subtasks queue, a clock and a source of ids."""

    store: ObjectStore
    subtasks: TaskSender
    clock: Clock
    new_id: NewId

    @cached_property
    def models(self) -> ModelReader:
        """Return the reader of model files, with what it has read before."""
        return ModelReader(self.store)

    @cached_property
    def attempts(self) -> AttemptReader:
        """Return the reader of attempt records, with what it has read before."""
        return AttemptReader(self.store)

    @cached_property
    def plans(self) -> PlanReader:
        """Return the reader of plans, with what it has read before."""
        return PlanReader(self.store)

"""The ports that a step is given, as one value; steps fetch nothing themselves."""

from dataclasses import dataclass

from spotgrad.ports import Clock, NewId, ObjectStore, TaskSender


@dataclass(frozen=True)
class World:
    """A store, the subtasks queue, a clock and a source of ids."""

    store: ObjectStore
    subtasks: TaskSender
    clock: Clock
    new_id: NewId

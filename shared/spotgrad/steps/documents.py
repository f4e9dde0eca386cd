"""Reading the few JSON documents that a job consists of, by key, and listing what is there."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from spotgrad.errors import Malformed, NotFound
from spotgrad.ports import ObjectInfo, ObjectReader
from spotgrad.protocol.head import Head
from spotgrad.protocol.key_grammar import Key
from spotgrad.protocol.keys import HeadKey, SpecKey
from spotgrad.protocol.plan import JobPlan
from spotgrad.protocol.wire import Document

SomeDocument = TypeVar("SomeDocument", bound=Document)
SomeKey = TypeVar("SomeKey", bound=Key)


@dataclass(frozen=True)
class TaggedHead:
    """A head and the entity tag under which it may be replaced."""

    head: Head
    etag: str


def read_document(store: ObjectReader, key: str, model: type[SomeDocument]) -> SomeDocument:
    """Return the document at ``key``; raises ``NotFound`` or ``Malformed``."""
    return model.from_json(store.get(key).body)


def find_document(store: ObjectReader, key: str, model: type[SomeDocument]) -> SomeDocument | None:
    """Return the document at ``key``, or None when there is none."""
    try:
        return read_document(store, key, model)
    except NotFound:
        return None


def find_head(store: ObjectReader, job: str) -> TaggedHead | None:
    """Return the job's head, or None before it is planned."""
    try:
        found = store.get(HeadKey(job).render())
    except NotFound:
        return None
    return TaggedHead(Head.from_json(found.body), found.etag)


def read_plan(store: ObjectReader, job: str) -> JobPlan:
    """Return the job as it was planned; raises ``NotFound`` before that."""
    return read_document(store, SpecKey(job).render(), JobPlan)


class PlanReader:
    """Reads the plan of each run once: nothing changes it."""

    def __init__(self, store: ObjectReader, most: int = 32) -> None:
        self._store = store
        self._most = most
        self._plans: dict[str, JobPlan] = {}

    def read(self, head: Head) -> JobPlan:
        """Return the plan of the head's run; raises ``NotFound`` when it is gone."""
        if head.run not in self._plans:
            if len(self._plans) >= self._most:
                self._plans.clear()
            self._plans[head.run] = read_plan(self._store, head.job)
        return self._plans[head.run]


def keyed(
    store: ObjectReader, prefix: str, form: type[SomeKey]
) -> Iterator[tuple[ObjectInfo, SomeKey]]:
    """Yield what lies under ``prefix`` in this form of key; strays are passed over."""
    for info in store.list(prefix):
        with suppress(Malformed):
            yield info, form.parse(info.key)

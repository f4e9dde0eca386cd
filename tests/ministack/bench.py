"""The bench of the proofs, its bucket on S3: what stays of the fakes is hooks, counts, the queue.

Every read and every write, conditional or not, is a request to the server, and what the server
answers is final: the lock of the fake store guards its own counters alone.
"""

from collections.abc import Iterator
from dataclasses import replace

from spotgrad.aws.s3 import S3Store
from spotgrad.ports import Absent, ObjectInfo, StoredObject
from spotgrad.steps.reconcile_job import Watch
from tests.builders import LEASE_SECONDS, Bench
from tests.fakes.clock import FakeClock
from tests.fakes.store import FakeStore


class HookedStore(FakeStore):
    """Counts and announces as the fake does, and keeps nothing itself."""

    def __init__(self, clock: FakeClock, s3: S3Store) -> None:
        super().__init__(clock)
        self._s3 = s3

    def get(self, key: str) -> StoredObject:
        self._begin("get", key)
        return self._s3.get(key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        self._begin("list", prefix)
        return self._s3.list(prefix)

    def delete(self, key: str) -> None:
        self._begin("delete", key)
        self._s3.delete(key)

    def snapshot(self) -> dict[str, bytes]:
        return {info.key: self._s3.get(info.key).body for info in self._s3.list("")}

    def _write(self, key: str, body: bytes, only_if: Absent | str | None) -> str:
        return self._s3.put(key, body, only_if=only_if)


def bench_on(s3: S3Store) -> Bench:
    """Return a bench whose bucket is ``s3``."""
    bench = Bench()
    bench.store = HookedStore(bench.clock, s3)
    bench.world = replace(bench.world, store=bench.store)
    bench.watch = Watch(bench.store, bench.queue, LEASE_SECONDS)
    return bench

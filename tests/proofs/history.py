"""What the history of a job must look like, whoever wrote it in whatever order."""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from spotgrad.ports import ObjectReader
from spotgrad.protocol.head import Head
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.protocol.merge import VcAsgd
from spotgrad.protocol.tensors import decode
from spotgrad.steps.audit import audit
from spotgrad.steps.chain import read_head, version_entries, walk_back
from spotgrad.steps.documents import read_plan
from spotgrad.steps.replay import replay
from tests.builders import JOB

Weight = NDArray[np.float64]


def check_history(store: ObjectReader) -> Head:
    """Check that the chain is linear and gapless, audited clean, and replays to the server copy."""
    head = read_head(store, JOB)
    entries = [entry for _, entry in walk_back(store, head)][::-1]
    assert [entry.revision for entry in entries] == list(range(head.revision + 1))
    made = version_entries(store, head)
    assert [entry.version for entry in made] == list(range(len(made)))
    assert head.version == len(made) - 1
    times = Counter((row.epoch, row.subtask) for entry in entries for row in entry.merged)
    assert set(times.values()) == {1}
    assert audit(store, JOB).findings == ()
    rebuilt = replay(store, JOB, len(made) - 1)
    assert rebuilt.body == store.get(head.objects["server"].key).body
    assert rebuilt.results == sum(times.values()) == head.results_merged
    _check_by_hand(store, made)
    return head


def merged(store: ObjectReader, head: Head) -> set[tuple[int, str]]:
    """Return epoch and name of every merged training subtask."""
    entries = [entry for _, entry in walk_back(store, head)]
    return {(row.epoch, row.subtask) for entry in entries for row in entry.merged}


def _check_by_hand(store: ObjectReader, made: list[LedgerEntry]) -> None:
    """Merge one result after the other, in the ledger's order, by the paper's formula (float64)."""
    assert read_plan(store, JOB).spec.merge == VcAsgd()
    weight: Weight = np.zeros((2, 2))
    for entry in made:
        if entry.initialized_from is not None:
            weight = _weight(store, entry.initialized_from.key)
        for row in entry.merged:
            alpha = row.epoch / (row.epoch + 1)
            weight = alpha * weight + (1 - alpha) * _weight(store, row.key)
    server = made[-1].server
    assert server is not None
    np.testing.assert_allclose(_weight(store, server.key), weight, rtol=0, atol=1e-5)


def _weight(store: ObjectReader, key: str) -> Weight:
    return decode(store.get(key).body).tensors["weight"].astype(np.float64)

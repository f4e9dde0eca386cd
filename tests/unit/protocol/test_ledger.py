import json
from typing import Any

import pytest

from spotgrad.errors import Malformed
from spotgrad.protocol.ledger import LedgerEntry

ENTRY: dict[str, Any] = {
    "schema": 1,
    "job": "d",
    "run": "00000001",
    "revision": 0,
    "commit": "cafe0123",
    "previous": None,
    "at": "2026-01-01T12:00:00Z",
    "state": "RUNNING",
    "version": None,
    "results_merged": 0,
}
MERGED: dict[str, Any] = {
    "epoch": 1,
    "subtask": "train-000003",
    "attempt": "deadbeef",
    "key": "results/d/000001/train-000003/deadbeef.safetensors",
    "sha256": "0" * 64,
    "samples": 90,
    "staleness": 2,
    "base": {"version": 0, "commit": "cafe0123", "results_merged": 0},
    "coefficient": 0.1,
    "update_norm": 1.5,
}


def test_the_first_entry_has_no_predecessor() -> None:
    entry = LedgerEntry.from_json(json.dumps(ENTRY))
    assert entry.previous is None
    assert entry.merged == ()


def test_coefficients_survive_bit_for_bit() -> None:
    # Replay multiplies by exactly what the merge multiplied by.
    coefficient = 0.1 + 2**-55
    entry = LedgerEntry.from_json(json.dumps(ENTRY | {"merged": [MERGED]}))
    merged = entry.merged[0].model_copy(update={"coefficient": coefficient})
    again = LedgerEntry.from_json(entry.model_copy(update={"merged": (merged,)}).to_json())
    assert again.merged[0].coefficient.hex() == coefficient.hex()


def test_the_order_of_the_merge_is_kept() -> None:
    shards = [f"train-{shard:06d}" for shard in (3, 1, 2)]
    merged = [MERGED | {"subtask": subtask} for subtask in shards]
    entry = LedgerEntry.from_json(json.dumps(ENTRY | {"merged": merged}))
    assert [result.subtask for result in LedgerEntry.from_json(entry.to_json()).merged] == shards


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"revision": -1}, "revision"),
        ({"state": "ASLEEP"}, "state"),
        ({"merged": [MERGED | {"staleness": -1}]}, "merged.0.staleness"),
    ],
)
def test_a_wrong_entry_is_refused(changes: dict[str, Any], place: str) -> None:
    with pytest.raises(Malformed, match=rf"^ledger entry: {place}: "):
        LedgerEntry.from_json(json.dumps(ENTRY | changes))

"""DeDLOC's part of the document: its section and its one claim, from the record alone."""

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Final

from benchmarks.reproduce.large_batch import EPOCHS, LR, MOMENTUM
from benchmarks.reproduce.records import Records
from benchmarks.reproduce.study import Study
from benchmarks.reproduce.tables import percent, table
from benchmarks.reproduce.verdicts import Verdict

PIPELINE, ALONE, OTHER = "pipeline", "one process, same order", "one process, other order"
SHOWN_STEPS: Final = (1, 2, 5, 10, 20, 30, 40, 50, 60)


def large_batch_section(records: Records, study: Study) -> str:
    """Losses by step."""
    rows = records.read("large_batch")
    real = rows[PIPELINE]
    steps = [each for each in SHOWN_STEPS if each <= len(real["loss"])]
    lines = [
        [name, *(f"{row['loss'][each - 1]:.3f}" for each in steps), percent(row["accuracy"])]
        for name, row in rows.items()
    ]
    pauses = " and ".join(f"{each:g} s" for each in real["slow_seconds"])
    return f"""## DeDLOC: loss step by step against synchronous training

A real run on the local stack ({real["state"]}, audit {real["audit"]}): {len(real["slow_seconds"])} unequal workers (pauses of {pauses} a
subtask) send gradients of one shard each in fp16, and {real["target_batch_size"]:,} samples make one step of SGD ({LR:g}, momentum
{MOMENTUM:g}); {EPOCHS} epochs. Beside it `torch.optim.SGD` in one process, on the same shards in the same order, and in
another order: how far apart two synchronous runs are. Batches inside a shard ({study.batch_size} images, which batch norm
sees) are drawn anew by the workers and fixed in the one process.

![loss by step](reproduction/large_batch.svg)

{table(["loss of step", *map(str, steps), "accuracy at the end, %"], lines)}

That the steps are the same to 1e-5, whoever computes them and whoever leaves, is proved without batch norm in
`tests/proofs/test_dedloc.py`.
"""


def large_batch_verdicts(records: Records) -> Iterator[Verdict]:
    """Yield DeDLOC's claim, if there is a record."""
    rows = records.read("large_batch")
    if not rows:
        return
    ours = _apart(rows[PIPELINE]["loss"], rows[ALONE]["loss"])
    usual = _apart(rows[ALONE]["loss"], rows[OTHER]["loss"])
    yield Verdict(
        "DeDLOC: the loss step by step is nearly that of synchronous training",
        f"mean distance of the losses {ours:.3f}; of two synchronous runs in other orders {usual:.3f}",
        ours <= usual,
    )


def _apart(one: Sequence[float], other: Sequence[float]) -> float:
    return fmean(abs(a - b) for a, b in zip(one, other, strict=True))

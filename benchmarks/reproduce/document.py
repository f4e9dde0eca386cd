"""``docs/reproduction.md``, made of the records alone: no number stands here."""

from collections.abc import Callable, Mapping
from typing import Final

from benchmarks.reproduce import sections
from benchmarks.reproduce.large_batch_section import large_batch_section, large_batch_verdicts
from benchmarks.reproduce.poison_section import poison_section
from benchmarks.reproduce.records import Records
from benchmarks.reproduce.rules_section import rules_section
from benchmarks.reproduce.study import Study
from benchmarks.reproduce.tables import percent, table
from benchmarks.reproduce.verdicts import NOT_TRIED, UNKNOWN, verdicts

__all__ = ["document"]

SECTIONS: Final[Mapping[str, Callable[[Records, Study], str]]] = {
    "alpha": sections.alpha,
    "configurations": sections.configurations,
    "preemption": sections.preemption,
    "cost": sections.cost,
    "rules": rules_section,
    "poison": poison_section,
    "large_batch": large_batch_section,
}
"""By the record that a section cannot do without, in their order."""


def document(records: Records, study: Study) -> str:
    """Return the document; an experiment that was not made has no section."""
    made = [make(records, study) for name, make in SECTIONS.items() if records.read(name)]
    return "\n".join([_head(records, study), _claims(records), *made])


def _head(records: Records, study: Study) -> str:
    return f"""# Reproduction of the papers

Made by `make reproduce`; do not edit. Every number stands in `docs/reproduction/*.json`, from runs on
two shared cores with one torch thread; `python -m benchmarks.reproduce document` makes this page of
them again without a run.

VC-ASGD is Atre, Jha and Rao, *Distributed Deep Learning Using Volunteer Computing-Like Paradigm*
(arXiv 2103.08894). Its text was not at hand; what it claims is from memory, its formulas check out.
DeDLOC is Diskin et al., *Distributed Deep Learning in Open Collaborations* (arXiv 2106.10207).

What is repeated, and at which scale: {study.name} (the paper: CIFAR-10, 50,000 images) in
{study.shards} shards, {study.epochs} epochs ({study.shards * study.epochs:,} subtasks; the paper: 2,000), a perceptron with {study.hidden} hidden units and batch norm
(the paper: a ResNet), SGD {study.lr:g} with momentum 0.9, batches of {study.batch_size}. Accuracy is that of all test images.

Training is torch, by the worker's own code; the gate, the rules and the kernel are the product's. Only
time is simulated: each subtask's duration is drawn (log-normal, sigma 0.2), and a result is trained
from the version that was current when its try began.

{_same(records)}"""


def _same(records: Records) -> str:
    row = records.read("same").get("one worker")
    if row is None:
        return ""
    return f"""**Held against the real pipeline**: the same job on the local stack (S3, SQS, functions and a worker
process, one subtask in flight), {row["subtasks"]} subtasks: {row["equal_tensors"]} of {row["tensors"]} tensors equal bit for bit, largest
difference {row["largest_difference"]:g}; accuracy {percent(row["accuracy"])} % there, {percent(row["simulated_accuracy"])} % here; job {row["state"]}, audit {row["audit"]}.
{_calibration(records)}"""


def _calibration(records: Records) -> str:
    rows = records.read("calibration")
    if not rows:
        return ""
    lines = [
        [
            name.partition(" ")[0],
            f"{row['seconds']:.1f}",
            f"{row['simulated_seconds']:.1f}",
            percent(row["accuracy"]),
            percent(row["simulated_accuracy"]),
        ]
        for name, row in rows.items()
    ]
    head = ["workers", "seconds, real", "simulated", "accuracy, % real", "simulated"]
    return f"""
Time, from the first attempt's beginning to the last one's end; the simulator is given the cycle of
the run with one worker, so its first row is right by construction:

{table(head, lines)}
"""


def _claims(records: Records) -> str:
    found = [*verdicts(records), *large_batch_verdicts(records)]
    rows = [verdict.row for verdict in found]
    unknown = "\n".join(f"- {each}" for each in UNKNOWN)
    not_tried = "\n".join(f"- {each}" for each in NOT_TRIED)
    return f"""## What is reproduced

The papers' statements as they are known to us, most of them qualitative.

{table(["the papers", "here", ""], rows)}

Unknown to us, so neither reproduced nor refuted:

{unknown}

Not tried:

{not_tried}
"""

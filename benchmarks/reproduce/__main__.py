"""``python -m benchmarks.reproduce``: make the experiments and ``docs/reproduction.md``.

Without a name all experiments are made, then the document. ``--small`` makes each at a size for CI,
into a folder that is thrown away or named with ``--out``.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.reproduce import experiments
from benchmarks.reproduce.cost import cost
from benchmarks.reproduce.images import DEBIAN
from benchmarks.reproduce.preemption import preemption
from benchmarks.reproduce.records import Records
from benchmarks.reproduce.study import Study, full, small

OUT = Path(__file__).resolve().parents[2] / "docs" / "reproduction"
Rows = Iterable[tuple[str, Any]]


def made(study: Study, records: Records) -> dict[str, Callable[[], Rows]]:
    """Return the experiments by name, in the order in which they are made."""
    return {
        "alpha": lambda: experiments.alpha(study),
        "configurations": lambda: experiments.configurations(study),
        "preemption": preemption,
        "cost": lambda: cost(records.read("preemption")),
        "rules": lambda: experiments.rules(study),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reproduce", description=__doc__)
    parser.add_argument("names", nargs="*", help="experiments to make; all if there is none")
    parser.add_argument("--data", type=Path, default=DEBIAN, help="Fashion-MNIST's four files")
    parser.add_argument("--out", type=Path, default=OUT, help="where the numbers go")
    parser.add_argument("--small", action="store_true", help="at the size for CI")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)  # as a worker on a shared machine; the bits depend on it
    study = small() if options.small else full(options.data)
    records = Records(options.out)
    ways = made(study, records)
    for name in options.names or ways:
        records.write(name, ways[name]())
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""``python -m benchmarks.reproduce``: make the experiments and ``docs/reproduction.md``.

Without a name all experiments are made, then the document and its plots; ``document`` and ``plots``
alone make these of the records again. ``--small`` is a size for CI, without plots.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import torch

from benchmarks.reproduce import checks, experiments
from benchmarks.reproduce.cost import cost
from benchmarks.reproduce.document import document
from benchmarks.reproduce.images import DEBIAN
from benchmarks.reproduce.large_batch import large_batch
from benchmarks.reproduce.poison import poison
from benchmarks.reproduce.preemption import preemption
from benchmarks.reproduce.records import Records
from benchmarks.reproduce.study import Study, full, small

OUT: Final = Path(__file__).resolve().parents[2] / "docs" / "reproduction"
DOCUMENT, PLOTS = "document", "plots"
SMALL: Final = ("same", "alpha", "preemption", "cost", DOCUMENT)
SMALL_SEEDS: Final = 2
Rows = Iterable[tuple[str, Any]]


def made(study: Study, records: Records, seeds: int | None) -> dict[str, Callable[[], Rows]]:
    """Return the experiments by name, in the order in which they are made."""
    return {
        "same": lambda: checks.same(study),
        "calibration": lambda: checks.calibration(study),
        "alpha": lambda: experiments.alpha(study),
        "configurations": lambda: experiments.configurations(study),
        "preemption": lambda: preemption() if seeds is None else preemption(seeds),
        "kills": lambda: checks.kills(study),
        "cost": lambda: cost(records.read("preemption")),
        "rules": lambda: experiments.rules(study),
        "seeds": lambda: experiments.seeds(study),
        "poison": lambda: poison(study),
        "large_batch": lambda: large_batch(study),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and do what it says."""
    options = _options(arguments)
    torch.set_num_threads(1)  # as a worker on a shared machine
    study = small() if options.small else full(options.data)
    records = Records(options.out)
    ways = made(study, records, SMALL_SEEDS if options.small else None)
    everything = SMALL if options.small else (*ways, DOCUMENT, PLOTS)
    for name in options.names or everything:
        if name == DOCUMENT:
            _write(records, study)
        elif name == PLOTS:
            _draw(records)
        else:
            records.write(name, ways[name]())
    checked = records.read("same")
    if checked and not checks.agree(checked):
        print("the simulator and the local stack disagree: see same.json", file=sys.stderr)
        return 1
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reproduce", description=__doc__)
    known = [*made(small(), Records(OUT), None), DOCUMENT, PLOTS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}; or all")
    parser.add_argument("--data", type=Path, default=DEBIAN, help="Fashion-MNIST's four files")
    parser.add_argument("--out", type=Path, default=OUT, help="where the numbers go")
    parser.add_argument("--small", action="store_true", help="at the size for CI")
    options = parser.parse_args(arguments)
    if odd := [name for name in options.names if name not in known]:
        parser.error(f"{odd[0]!r} is none of {', '.join(known)}")
    return options


def _write(records: Records, study: Study) -> None:
    """Write the document beside the folder of its records."""
    path = records.folder.parent / f"{records.folder.name}.md"
    path.write_text(document(records, study), encoding="utf-8")
    print(path)


def _draw(records: Records) -> None:
    from benchmarks.reproduce.plots import draw  # the one place that asks for matplotlib

    for path in draw(records, records.folder):
        print(path)


if __name__ == "__main__":
    sys.exit(main())

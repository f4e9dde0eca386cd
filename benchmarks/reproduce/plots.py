"""The pictures of the document, as SVG, from the records alone. The one user of matplotlib."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.reproduce.experiments import IN_FLIGHT, RULES
from benchmarks.reproduce.preemption import LOSSES, VARIANTS
from benchmarks.reproduce.records import Records

mpl.use("svg")
mpl.rcParams.update(
    {"svg.hashsalt": "spotgrad", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3}
)

Rows = Mapping[str, Any]


def draw(records: Records, folder: Path) -> list[Path]:
    """Draw every plot whose record is there; return their paths."""
    drawn = []
    for name, plot in PLOTS.items():
        rows = records.read(name)
        if rows:
            path = folder / f"{name}.svg"
            figure = plot(rows)
            figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
            drawn.append(path)
    return drawn


def _alpha(rows: Rows) -> Figure:
    figure, (left, right) = _figure(2)
    for number, (name, row) in enumerate(rows.items()):
        epochs, color = range(1, len(row["accuracy"]) + 1), f"C{number}"
        left.plot(epochs, row["accuracy"], color, label=name, linewidth=1)
        if "within_epoch" in row:
            deviations = [each["deviation"] for each in row["within_epoch"]]
            right.plot(epochs, deviations, color, label=name)
    left.set(xlabel="epoch", ylabel="accuracy", ylim=(0.6, None))
    right.set(xlabel="epoch", ylabel="deviation within the epoch", yscale="log")
    left.legend()
    right.legend()
    return figure


def _configurations(rows: Rows) -> Figure:
    figure, (axes,) = _figure(1)
    for name, row in rows.items():
        if "epoch_ends" in row:
            axes.plot(row["epoch_ends"], row["accuracy"], label=name, linewidth=1)
    axes.set(xlabel="simulated seconds", ylabel="accuracy")
    axes.legend()
    return figure


def _preemption(rows: Rows) -> Figure:
    figure, (axes,) = _figure(1)
    for name in VARIANTS:
        minutes = [rows[str(loss)]["simulated"][name]["mean"] for loss in LOSSES]
        axes.plot(LOSSES, minutes, marker="o", label=f"simulated: {name}")
    for name in ("paper", "exact"):
        axes.plot(
            LOSSES, [rows[str(loss)][name] for loss in LOSSES], "--", label=f"formula: {name}"
        )
    axes.set(xlabel="p", ylabel="minutes")
    axes.legend()
    return figure


def _rules(rows: Rows) -> Figure:
    figure, all_axes = _figure(len(IN_FLIGHT))
    for axes, in_flight in zip(all_axes, IN_FLIGHT, strict=True):
        for number, name in enumerate(RULES):
            accuracy = rows[f"{name} / {in_flight}"]["accuracy"]
            style = "-" if number < 10 else "--"
            axes.plot(range(1, len(accuracy) + 1), accuracy, style, label=name, linewidth=1)
        axes.set(xlabel="epoch", title=f"{in_flight} in flight", ylim=(0.5, None))
    all_axes[0].set_ylabel("accuracy")
    all_axes[-1].legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _large_batch(rows: Rows) -> Figure:
    figure, (axes,) = _figure(1)
    for name, row in rows.items():
        axes.plot(row["loss"], label=name, linewidth=1)
    axes.set(xlabel="optimizer step", ylabel="training loss", yscale="log")
    axes.legend()
    return figure


def _figure(columns: int) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(3.2 + 3.2 * columns, 3.4))
    return figure, [figure.add_subplot(1, columns, each + 1) for each in range(columns)]


PLOTS: Final[Mapping[str, Callable[[Rows], Figure]]] = {
    "alpha": _alpha,
    "configurations": _configurations,
    "preemption": _preemption,
    "rules": _rules,
    "large_batch": _large_batch,
}

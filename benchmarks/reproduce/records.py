"""The numbers of each experiment, as one JSON file; the document is made of these alone."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Records:
    """A folder of experiments."""

    folder: Path

    def write(self, experiment: str, rows: Iterable[tuple[str, Any]]) -> None:
        """Write the rows as they come, so that a run that is cut off leaves what it had."""
        done: dict[str, Any] = {}
        for name, row in rows:
            done[name] = row
            self._save(experiment, done)
            print(f"{experiment}: {name}", flush=True)

    def read(self, experiment: str) -> dict[str, Any]:
        """Return an experiment's rows by name; nothing if it was not made."""
        path = self._path(experiment)
        if not path.is_file():
            return {}
        rows: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return rows

    def _save(self, experiment: str, rows: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(_rounded(rows), indent=1)
        self._path(experiment).write_text(text + "\n", encoding="utf-8")

    def _path(self, experiment: str) -> Path:
        return self.folder / f"{experiment}.json"


def _rounded(value: Any) -> Any:
    """Return the value with floats of six digits: the rest is noise, and half of the file."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return value

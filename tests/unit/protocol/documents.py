"""Draws any model of the protocol, from its own annotations: a new field is drawn without a word.

Values respect the bounds and patterns that the fields declare; floats are finite. ``JobSpec`` alone
is spelt out, since most combinations of its fields are refused by design; a manifest's shards are
named after what was drawn for them.
"""

import itertools
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types as limits
from hypothesis import strategies as st
from pydantic import BaseModel, JsonValue
from pydantic.fields import FieldInfo

from spotgrad.protocol.bitmap import Bitmap
from spotgrad.protocol.dataset import DatasetManifest, Split
from spotgrad.protocol.job import JobSpec
from spotgrad.protocol.keys import ShardKey
from spotgrad.protocol.wire import Document

texts = st.text(st.characters(codec="utf-8"), max_size=12)
optimizers = st.fixed_dictionaries(
    {"name": st.just("sgd"), "lr": st.floats(1e-6, 10)}, optional={"momentum": st.floats(0, 0.99)}
) | st.fixed_dictionaries(
    {"name": st.sampled_from(["adam", "adamw"]), "lr": st.floats(1e-6, 10)},
    optional={"betas": st.tuples(st.floats(0, 0.9), st.floats(0, 0.9))},
)
job_specs = st.fixed_dictionaries(
    {
        "name": st.from_regex("[a-z0-9][a-z0-9-]{0,62}", fullmatch=True),
        "task": st.sampled_from(["digits_task:Digits", "a.b_1.c:D"]),
        "dataset": st.just("digits"),
        "epochs": st.integers(1, 999_999),
    },
    optional={
        "args": st.dictionaries(texts, st.none() | st.integers() | texts | st.lists(st.booleans())),
        "seed": st.integers(0, 2**63 - 1),
        "merge": st.fixed_dictionaries({"alpha": st.just("var") | st.floats(0.001, 0.999)}),
        "local": st.fixed_dictionaries({"optimizer": optimizers}),
        "workers": st.fixed_dictionaries({"usd_per_hour": st.floats(0.001, 100)}),
        "budget": st.fixed_dictionaries({"deadline": st.sampled_from(["90m", "2d"])}),
        "keep": st.fixed_dictionaries({"results_days": st.integers(1, 100)}),
        "evaluate": st.none(),
        "schedule": st.fixed_dictionaries({"issue": st.sampled_from(["barrier", "rolling"])}),
    },
).map(JobSpec.model_validate)


def documents() -> list[type[Document]]:
    """Return every kind of document that the imported modules define."""
    found: list[type[Document]] = []
    waiting: list[type[Document]] = [Document]
    while waiting:
        kinds = waiting.pop().__subclasses__()
        waiting += kinds
        found += [kind for kind in kinds if not kind.__subclasses__()]
    return sorted(found, key=lambda kind: kind.__name__)


def values_of(annotation: Any, metadata: tuple[Any, ...] = ()) -> st.SearchStrategy[Any]:
    """Draw what a field with this annotation and these constraints may hold."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in _COMPOUNDS:
        return _COMPOUNDS[origin](parts, metadata)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return models(annotation)
    return _LEAVES[annotation](metadata)


@cache
def models(model: type[BaseModel]) -> st.SearchStrategy[Any]:
    """Draw instances of a model, validated."""
    if model is JobSpec:
        return job_specs
    fields = {
        field.alias or name: values_of(field.annotation, _flat(field.metadata))
        for name, field in model.model_fields.items()
    }
    drawn = st.fixed_dictionaries(fields)
    if model is DatasetManifest:
        drawn = drawn.map(_with_keys)
    return drawn.map(model.model_validate)


def _with_keys(manifest: dict[str, Any]) -> dict[str, Any]:
    """Name each shard by its number and its content, as a push does."""
    numbers = itertools.count()

    def keyed(split: Split) -> Split:
        keys = (
            ShardKey(manifest["dataset"], next(numbers), shard.sha256[:16])
            for shard in split.shards
        )
        shards = [
            shard.model_copy(update={"key": key.render()})
            for shard, key in zip(split.shards, keys, strict=True)
        ]
        return Split(shards=tuple(shards))

    return manifest | {"splits": {name: keyed(one) for name, one in manifest["splits"].items()}}


def _flat(metadata: Any) -> tuple[Any, ...]:
    found: list[Any] = []
    for entry in metadata:
        found += entry.metadata if isinstance(entry, FieldInfo) else [entry]
    return tuple(found)


def _limit(metadata: tuple[Any, ...], kind: type, default: Any) -> Any:
    name = "min_length" if kind is limits.MinLen else kind.__name__.lower()
    return next((getattr(entry, name) for entry in metadata if isinstance(entry, kind)), default)


def _dicts(parts: tuple[Any, ...], metadata: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    least = _limit(metadata, limits.MinLen, 0)
    return st.dictionaries(*map(values_of, parts), min_size=least, max_size=2)


def _unions(parts: tuple[Any, ...], metadata: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    return st.one_of([values_of(part, metadata) for part in parts])


def _tuples(parts: tuple[Any, ...], metadata: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if parts[1:] != (...,):
        return st.tuples(*map(values_of, parts))
    least = _limit(metadata, limits.MinLen, 0)
    return st.lists(values_of(parts[0]), min_size=least, max_size=least + 1).map(tuple)


def _integers(metadata: tuple[Any, ...]) -> st.SearchStrategy[int]:
    above = _limit(metadata, limits.Gt, None)
    least = _limit(metadata, limits.Ge, None) if above is None else above + 1
    below = _limit(metadata, limits.Lt, None)
    most = _limit(metadata, limits.Le, None) if below is None else below - 1
    return st.integers(least, most)


def _floats(metadata: tuple[Any, ...]) -> st.SearchStrategy[float]:
    above = _limit(metadata, limits.Gt, None)
    least = _limit(metadata, limits.Ge, above)
    drawn = st.floats(least, allow_nan=False, allow_infinity=False)
    return drawn.filter(lambda number: number != above)


def _strings(metadata: tuple[Any, ...]) -> st.SearchStrategy[str]:
    for entry in metadata:
        if pattern := getattr(entry, "pattern", None):
            return st.from_regex(re.compile(pattern), fullmatch=True)
    return st.text(
        st.characters(codec="utf-8"), min_size=_limit(metadata, limits.MinLen, 0), max_size=12
    )


_COMPOUNDS: dict[Any, Callable[[tuple[Any, ...], tuple[Any, ...]], st.SearchStrategy[Any]]] = {
    Annotated: lambda parts, metadata: values_of(parts[0], (*metadata, *_flat(parts[1:]))),
    Union: _unions,
    UnionType: _unions,
    Literal: lambda parts, _: st.sampled_from(parts),
    dict: _dicts,
    tuple: _tuples,
}
_LEAVES: dict[Any, Callable[[tuple[Any, ...]], st.SearchStrategy[Any]]] = {
    NoneType: lambda _: st.none(),
    bool: lambda _: st.booleans(),
    int: _integers,
    float: _floats,
    str: _strings,
    datetime: lambda _: st.datetimes(datetime(2020, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - hypothesis takes naive bounds
    JsonValue: lambda _: st.none() | st.dictionaries(texts, st.integers() | texts, max_size=2),
    Bitmap: lambda _: st.lists(st.integers(0, 40), max_size=4).map(Bitmap.of),
}

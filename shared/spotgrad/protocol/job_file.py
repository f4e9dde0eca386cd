"""The job file: YAML that a person wrote -> ``JobSpec``, or one line that says what to change.

Not the contract itself, which is ``job``. What a place may hold is read off the model's JSON
schema, so a new field brings its own wording. Invariant: every refusal is an ``InvalidJob`` of one
line that names the key, its value and what is allowed.
"""

import difflib
import json
from typing import Any, Final, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from spotgrad.errors import InvalidJob, Malformed
from spotgrad.protocol.allowed_values import Schema, allowed, narrowed
from spotgrad.protocol.job import JobSpec
from spotgrad.protocol.plain_yaml import parse_yaml

_SHOWN_CHARACTERS: Final = 60


def parse_job_file(body: bytes) -> JobSpec:
    """Read and validate a job file.

    Raises:
        InvalidJob: one line that names the culprit and the remedy.
    """
    try:
        content = parse_yaml(body)
    except Malformed as error:
        raise InvalidJob(f"job file: {error}") from error
    if not isinstance(content, dict):
        raise InvalidJob(f"job file: {_shown(content)} is not a mapping; begin with name: <job>")
    try:
        # Strict, as JSON: "yes" is no boolean and "3" no number, yet a list may become a tuple.
        return JobSpec.model_validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        findings = error.errors(include_url=False)
        # A misspelt key is also a missing one: name the spelling, it is what has to be changed.
        first = min(findings, key=lambda finding: finding["type"] != "extra_forbidden")
        raise InvalidJob(f"job file: {_worded(first, content)}") from error


class _Place(NamedTuple):
    """Where a finding lies: its keys in the file, the schema there, and of the mapping around."""

    path: tuple[str, ...]
    schema: Schema
    parent: Schema


def _worded(finding: ErrorDetails, content: dict[str, Any]) -> str:
    place = _locate(finding)
    name = ".".join(key if key.isidentifier() else _shown(key) for key in place.path)
    if finding["type"] == "extra_forbidden":
        return f"{name}: unknown key; {_nearest(place)}"
    if finding["type"] == "missing" and place.path[-1] == finding["loc"][-1]:
        return f"{name}: missing: {allowed(place.schema)}"
    if finding["type"] == "value_error" and "properties" in place.schema:
        # A rule about several keys, in the words of the model's own validator.
        reason = str(finding["ctx"]["error"])
        return f"{name}: {reason}" if name else reason
    return (
        f"{name}: {_shown(_value_at(content, place.path))} is not allowed: {allowed(place.schema)}"
    )


def _locate(finding: ErrorDetails) -> _Place:
    """Follow pydantic's location through the schema; the names of union members are no keys."""
    root: Schema = JobSpec.model_json_schema()
    path: tuple[str, ...] = ()
    schema = parent = root
    for step in finding["loc"]:
        if "discriminator" in schema:
            schema = narrowed({"$ref": schema["discriminator"]["mapping"][step]}, root)
        elif "properties" in schema:
            path, parent = (*path, str(step)), schema
            schema = narrowed(parent["properties"].get(step, {}), root)
    if finding["type"] == "union_tag_invalid":
        tags = schema["discriminator"]
        return _Place((*path, tags["propertyName"]), {"enum": sorted(tags["mapping"])}, schema)
    return _Place(path, schema, parent)


def _nearest(place: _Place) -> str:
    known = list(place.parent["properties"])
    near = difflib.get_close_matches(place.path[-1], known, n=1)
    return f'did you mean "{near[0]}"?' if near else f"allowed here: {', '.join(known)}"


def _value_at(content: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        content = content[key]
    return content


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."

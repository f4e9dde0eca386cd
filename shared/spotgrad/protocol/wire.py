"""The base of every model that travels: frozen, nothing extra, a schema number, one JSON form.

``to_json`` and ``from_json`` are twins; equal models give equal bytes, so digests are stable.
"""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spotgrad.errors import Malformed

SCHEMA: Literal[1] = 1

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Identifier = Annotated[str, Field(pattern=r"^[0-9a-f]{8,64}$")]
"""Random ids (run, commit, attempt): lower-case hexadecimal, safe in a key."""
SubtaskText = Annotated[str, Field(pattern=r"^(initialize|(train|evaluate)-[0-9]{6})$")]
"""A subtask's name, as ``keys.SubtaskName`` renders it."""
Finite = Annotated[float, Field(allow_inf_nan=False)]
"""JSON has no NaN: what is not finite never enters a document."""


class Part(BaseModel):
    """A piece of a document: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Document(Part):
    """A whole JSON document or header; ``schema: 1`` stands in each."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)
    what: ClassVar[str] = "document"

    schema_: Literal[1] = Field(default=SCHEMA, alias="schema")

    def to_json(self) -> bytes:
        """Return the one JSON form of this document (UTF-8, no whitespace, declared order)."""
        return self.model_dump_json().encode()

    @classmethod
    def from_json(cls, body: bytes | str) -> Self:
        """Read what ``to_json`` wrote.

        Raises:
            Malformed: one line naming the first field that is missing, unknown or wrong.
        """
        try:
            document = cls.model_validate_json(body)
        except ValidationError as error:
            raise Malformed(f"{cls.what}: {first_problem(error)}") from error
        if "schema_" not in document.model_fields_set:
            raise Malformed(f"{cls.what}: schema: missing; expected {SCHEMA}")
        return document


def first_problem(error: ValidationError) -> str:
    """Return the first finding of a validation as one line: ``place: message``."""
    finding: Any = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in finding["loc"]) or "document"
    return f"{place}: {finding['msg']}"

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from spotgrad.protocol.allowed_values import allowed, narrowed


class Inner(BaseModel):
    """A description of the class is not one of the field."""

    kind: Literal["inner"]
    depth: int = 0


class Other(BaseModel):
    kind: Literal["other"]


class Everything(BaseModel):
    any_integer: int
    ranged: int = Field(ge=1, le=9)
    half_open: int = Field(ge=0, lt=9)
    above: float = Field(gt=0)
    at_most: float = Field(le=2.5)
    between: float = Field(gt=0, lt=1)
    flag: bool
    word: str = Field(min_length=1)
    shaped: str = Field(pattern="^[a-z]+$")
    described: str = Field(pattern="^[a-z]+$", description="lower-case letters")
    one: Literal["only"]
    two: Literal["a", "b"]
    three: Literal["a", "b", "c"]
    mixed: Literal["var"] | Annotated[float, Field(gt=0, lt=1)]
    maybe: Annotated[float, Field(gt=0)] | None
    inner: Inner
    maybe_inner: Inner | None
    tagged: Annotated[Inner | Other, Field(discriminator="kind")]
    mapping: dict[str, int]
    pair: tuple[float, float]
    nothing_or_two: int | str | None


SCHEMA = Everything.model_json_schema()


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("any_integer", "a whole number"),
        ("ranged", "a whole number from 1 to 9"),
        ("half_open", "a whole number of at least 0 and below 9"),
        ("above", "a number above 0"),
        ("at_most", "a number of at most 2.5"),
        ("between", "a number between 0 and 1 (exclusive)"),
        ("flag", "true or false"),
        ("word", "text, not empty"),
        ("shaped", "text that matches ^[a-z]+$"),
        ("described", "lower-case letters"),
        ("one", '"only"'),
        ("two", '"a" or "b"'),
        ("three", '"a", "b" or "c"'),
        ("mixed", '"var" or a number between 0 and 1 (exclusive)'),
        ("maybe", "a number above 0"),
        ("inner", "a mapping of kind, depth"),
        ("maybe_inner", "a mapping of kind, depth"),
        ("tagged", 'a mapping whose kind is "inner" or "other"'),
        ("mapping", "a mapping"),
        ("pair", "a list of 2, each a number"),
        ("nothing_or_two", "a whole number or text, not empty or null"),
    ],
)
def test_a_field_says_what_it_takes(field: str, words: str) -> None:
    schema: dict[str, Any] = SCHEMA["properties"][field]
    assert allowed(narrowed(schema, SCHEMA)) == words


def test_every_field_is_in_the_table() -> None:
    covered = test_a_field_says_what_it_takes.pytestmark[0].args[1]  # type: ignore[attr-defined]  # pytest hangs its marks there
    assert [field for field, _ in covered] == list(SCHEMA["properties"])

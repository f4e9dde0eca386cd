import importlib
import json
import pkgutil
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, ValidationError

import spotgrad.protocol
from spotgrad.errors import Malformed
from spotgrad.protocol.control import Control
from spotgrad.protocol.wire import Document, Identifier, Part, Sha256
from tests.unit.protocol.documents import documents, models

for module in pkgutil.iter_modules(spotgrad.protocol.__path__, "spotgrad.protocol."):
    importlib.import_module(module.name)

KINDS = documents()


class Example(Document):
    what: ClassVar[str] = "example"

    count: int = Field(ge=0)
    name: str = "none"
    run: Identifier = "deadbeef"
    sha256: Sha256 = "0" * 64


def test_every_document_of_the_protocol_is_tried() -> None:
    assert {kind.__name__ for kind in KINDS} >= {
        "Attempt",
        "Control",
        "DatasetManifest",
        "Head",
        "JobPlan",
        "LedgerEntry",
        "ModelMetadata",
        "Refusal",
        "Rejection",
        "ResultMetadata",
        "Subtask",
    }


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=25)
@given(data=st.data())
def test_every_document_is_read_back(kind: type[Document], data: st.DataObject) -> None:
    document = data.draw(models(kind))
    body = document.to_json()
    assert kind.from_json(body) == document
    assert kind.from_json(body.decode()).to_json() == body
    assert json.loads(body)["schema"] == 1


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=3)
@given(data=st.data())
def test_no_document_takes_an_unknown_key_or_another_schema(
    kind: type[Document], data: st.DataObject
) -> None:
    content = json.loads(data.draw(models(kind)).to_json())
    with pytest.raises(Malformed, match=rf"^{kind.what}: surprise: "):
        kind.from_json(json.dumps(content | {"surprise": 1}))
    with pytest.raises(Malformed, match=rf"^{kind.what}: schema: "):
        kind.from_json(json.dumps(content | {"schema": 2}))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_document_says_what_it_is(kind: type[Document]) -> None:
    assert kind.what != Document.what
    with pytest.raises(Malformed, match=f"^{kind.what}: document: Invalid JSON"):
        kind.from_json(b"")


def test_equal_documents_have_equal_bytes_in_declared_order() -> None:
    document = Example(count=3)
    text = f'{{"schema":1,"count":3,"name":"none","run":"deadbeef","sha256":"{"0" * 64}"}}'
    assert document.to_json() == text.encode()
    assert Example.model_validate({"name": "none", "count": 3}).to_json() == text.encode()


def test_a_document_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Example(count=3).count = 4  # type: ignore[misc]  # that is the point


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{}", "example: count: Field required"),
        (b'{"count": -1}', "example: count: Input should be greater than or equal to 0"),
        (b'{"count": 1, "run": "xyz"}', "example: run: String should match"),
        (b'{"count": 1, "run": "deadbeef\\n"}', "example: run: String should match"),
        (b'{"count": 1, "sha256": "DEAD"}', "example: sha256: String should match"),
        (b"[]", "example: document: Input should be an object"),
        (b"\xff", "example: document: Invalid JSON"),
        (b"[" * 100_000, "example: document: Invalid JSON"),
    ],
)
def test_a_wrong_document_is_refused_in_one_line_that_names_the_place(
    body: bytes, said: str
) -> None:
    with pytest.raises(Malformed) as caught:
        Example.from_json(body)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_a_part_refuses_unknown_keys_too() -> None:
    class Piece(Part):
        size: int

    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Piece.model_validate({"size": 1, "siez": 2})


def test_a_document_without_its_schema_is_malformed() -> None:
    with pytest.raises(Malformed, match=r"^control file: schema: missing; expected 1$"):
        Control.from_json("{}")

import pytest

from spotgrad.errors import Malformed
from spotgrad.protocol.control import Control


def test_an_empty_control_file_asks_for_nothing() -> None:
    assert Control.from_json('{"schema":1}') == Control(resume=None)


def test_a_resume_token_is_a_random_id() -> None:
    assert Control.from_json('{"schema": 1, "resume": "deadbeef"}').resume == "deadbeef"
    with pytest.raises(Malformed, match=r"^control file: resume: "):
        Control.from_json('{"schema": 1, "resume": "now"}')

import pytest

from spotgrad.errors import Malformed
from spotgrad.merging import dc_asgd
from spotgrad.merging.functions import function_of


def test_a_recipe_s_function_is_found_by_name() -> None:
    assert function_of("dc-asgd") is dc_asgd.correct


def test_an_unknown_function_is_named() -> None:
    with pytest.raises(Malformed, match=r"function 'krum' is unknown: expected one of \['dc-asgd'"):
        function_of("krum")

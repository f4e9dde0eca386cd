import inspect
import re

import pytest

from spotgrad import errors
from spotgrad.errors import Reject, Retry, Skip, SpotgradError

BRANCHES = (Retry, Reject, Skip)
CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
LEAVES = [kind for kind in CLASSES if kind not in {SpotgradError, *BRANCHES}]


def test_every_error_is_the_root_a_branch_or_a_leaf_of_one_branch() -> None:
    for leaf in LEAVES:
        assert sum(issubclass(leaf, branch) for branch in BRANCHES) == 1, leaf
        assert leaf.__bases__[0] in BRANCHES, leaf
    for branch in BRANCHES:
        assert branch.__bases__ == (SpotgradError,)


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn: dict[str, list[str]] = {}
    for indent, name in re.findall(r"^( *)\* (\w+)", inspect.getdoc(errors) or "", re.MULTILINE):
        if not indent:
            leaves = drawn.setdefault(name, [])
        else:
            leaves.append(name)
    built = {
        branch.__name__: [k.__name__ for k in branch.__subclasses__() if k in LEAVES]
        for branch in BRANCHES
    }
    assert drawn == built


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_error_keeps_its_message_and_says_what_it_means(kind: type[SpotgradError]) -> None:
    assert str(kind("key 'x': gone")) == "key 'x': gone"
    assert kind.__doc__

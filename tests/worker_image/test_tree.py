import math
from collections import Counter, deque
from typing import Any

import numpy as np
import pytest
import torch

from spotgrad.errors import Malformed, Unsupported
from spotgrad.protocol.tensors import decode, encode
from worker_image.tree import join, split


def there_and_back(tree: Any) -> Any:
    plain, arrays = split(tree)
    return join(plain, decode(encode(arrays, {})).tensors)


@pytest.mark.parametrize(
    "tree",
    [
        None,
        True,
        7,
        0.1 + 0.2,
        math.inf,
        "text",
        [1, (2, [3.5]), {}],
        {"lr": 0.1, 0: {"betas": (0.9, 0.999)}, "none": None},
        {"state": {}, "param_groups": [{"params": [0, 1], "foreach": None}]},
    ],
)
def test_plain_data_comes_back_with_its_types(tree: Any) -> None:
    found = there_and_back(tree)
    assert found == tree
    assert type(found) is type(tree)


def test_what_equality_does_not_see_comes_back_too() -> None:
    assert math.isnan(there_and_back(math.nan))
    assert math.copysign(1, there_and_back(-0.0)) == -1
    milestones = there_and_back(Counter([1, 1, 2]))
    assert type(milestones) is Counter
    assert list(milestones.elements()) == [1, 1, 2]
    assert there_and_back([np.float64(0.5), np.int64(3), np.bool_(1)]) == [0.5, 3, True]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8])
def test_tensors_come_back_bit_for_bit(dtype: torch.dtype) -> None:
    tree = {"a": [torch.tensor([[1, 2], [3, 4]]).to(dtype).T, torch.tensor(5).to(dtype)]}
    found = there_and_back(tree)
    for one, other in zip(found["a"], tree["a"], strict=True):
        assert one.dtype == dtype
        assert torch.equal(one, other)


def test_a_tensor_is_taken_as_it_is_now() -> None:
    tensor = torch.zeros(2)
    plain, arrays = split([tensor])
    tensor += 1
    assert join(plain, arrays)[0].tolist() == [0, 0]


@pytest.mark.parametrize("odd", [object(), deque([1]), {(1, 2): 3}, lambda: None, {1}])
def test_what_is_no_plain_data_is_refused(odd: Any) -> None:
    with pytest.raises(Unsupported, match="cannot be saved"):
        split({"deep": [odd]})


@pytest.mark.parametrize(
    "plain",
    [
        {"tensor": "absent"},
        {"tensor": [1]},
        {"dict": 3},
        {"dict": [[1]]},
        {"what": 1},
        {"a": 1, "b": 2},
        [1],
        {},
        {"float": "x"},
    ],
)
def test_what_was_not_written_here_is_malformed(plain: Any) -> None:
    with pytest.raises(Malformed, match=r"^state: "):
        join(plain, {})

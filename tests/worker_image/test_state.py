import ml_dtypes
import numpy as np
import pytest
import torch
from torch import nn

from spotgrad.errors import Malformed, Unsupported
from spotgrad.protocol.tensors import decode, encode
from worker_image.state import Arrays, arrays_of, load, roles_of, to_torch


class Everything(nn.Module):
    """One of each: trained, frozen, buffers of three kinds, tied, strided, empty, odd dtypes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3)
        self.norm = nn.BatchNorm2d(3)
        self.frozen = nn.Parameter(torch.randn(2), requires_grad=False)
        self.embedding = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embedding.weight
        self.narrow = nn.Parameter(torch.randn(3, dtype=torch.bfloat16))
        self.wide = nn.Parameter(torch.randn(3, dtype=torch.float64))
        self.register_buffer("mask", torch.tensor([True, False]))
        self.register_buffer("none", torch.zeros(0, 3))
        self.register_buffer("empty_too", torch.zeros(0, 3))
        self.register_buffer("scratch", torch.zeros(2), persistent=False)
        self.register_buffer("scalar", torch.tensor(2.5, dtype=torch.bfloat16))
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stubs lack it


def everything(seed: int) -> Everything:
    torch.manual_seed(seed)
    return Everything()


def test_state_survives_the_way_through_a_file_bit_for_bit() -> None:
    source, target = everything(1), everything(2)
    file = decode(encode(arrays_of(source), {}))
    load(target, file.tensors)
    expected = source.state_dict()
    assert file.tensors.keys() == expected.keys()
    for name, tensor in target.state_dict().items():
        assert tensor.dtype == expected[name].dtype
        assert torch.equal(tensor, expected[name]), name
    assert not torch.equal(everything(2).conv.weight, source.conv.weight)


def test_arrays_have_the_values_and_dtypes_of_the_module() -> None:
    module = everything(1)
    arrays = arrays_of(module)
    assert all(array.flags.c_contiguous for array in arrays.values())
    assert arrays["narrow"].dtype == ml_dtypes.bfloat16
    assert arrays["narrow"].astype(np.float32).tolist() == module.narrow.float().tolist()
    assert float(arrays["scalar"]) == 2.5
    assert arrays["scalar"].shape == ()
    assert arrays["wide"].dtype == np.float64
    assert arrays["norm.num_batches_tracked"].dtype == np.int64
    assert arrays["mask"].tolist() == [True, False]
    assert arrays["conv.weight"][2, 1, 0].tolist() == module.conv.weight[2, 1, 0].tolist()


def test_roles() -> None:
    roles = roles_of(everything(1))
    assert {name for name, role in roles.items() if role == "alias"} == {"head.weight"}
    assert {name for name, role in roles.items() if role == "frozen"} == {"frozen"}
    assert {name for name, role in roles.items() if role == "parameter"} == {
        "conv.weight",
        "conv.bias",
        "norm.weight",
        "norm.bias",
        "embedding.weight",
        "narrow",
        "wide",
    }
    assert {name for name, role in roles.items() if role == "buffer"} == {
        "norm.running_mean",
        "norm.running_var",
        "norm.num_batches_tracked",
        "mask",
        "none",
        "empty_too",
        "scalar",
    }


def test_tied_tensors_are_still_tied_after_loading() -> None:
    source, target = everything(1), everything(2)
    load(target, arrays_of(source))
    assert target.head.weight is target.embedding.weight
    assert torch.equal(target.head.weight, source.embedding.weight)


def test_a_full_precision_master_is_cast_to_the_module() -> None:
    module = nn.Linear(2, 1, dtype=torch.bfloat16)
    load(module, {"weight": np.array([[1.0, 1.001]], np.float32), "bias": np.zeros(1, np.float32)})
    assert module.weight.dtype == torch.bfloat16
    assert module.weight.tolist() == [[1.0, 1.0]]  # 8 bits of mantissa
    assert module.weight.requires_grad


def test_loading_copies() -> None:
    array = np.ones(2, np.float32)
    tensor = to_torch(array)
    tensor += 1
    assert array.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({"weight": np.zeros((1, 2))}, "tensor 'bias' is in the task alone"),
        (
            {"weight": np.zeros((1, 2)), "bias": np.zeros(1), "extra": np.zeros(1)},
            "tensor 'extra' is in the model version alone",
        ),
        (
            {"weight": np.zeros((2, 1)), "bias": np.zeros(1)},
            r"tensor 'weight': the task has shape \(1, 2\), the model version \(2, 1\)",
        ),
    ],
)
def test_a_model_of_another_task_is_refused(arrays: Arrays, problem: str) -> None:
    module = nn.Linear(2, 1)
    before = module.weight.clone()
    with pytest.raises(Malformed, match=problem):
        load(module, arrays)
    assert torch.equal(module.weight, before)


class WithExtraState(nn.Linear):
    def get_extra_state(self) -> dict[str, int]:
        return {"steps": 1}


def test_state_that_is_no_dense_tensor_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="'_extra_state' is no dense tensor"):
        arrays_of(WithExtraState(1, 1))
    sparse = nn.Module()
    sparse.register_buffer("rows", torch.eye(2).to_sparse())
    with pytest.raises(Unsupported, match="'rows' is no dense tensor"):
        arrays_of(sparse)


def test_a_dtype_that_numpy_lacks_is_refused_by_name() -> None:
    module = nn.Module()
    module.register_buffer("tiny", torch.zeros(2).to(torch.float8_e4m3fn))
    with pytest.raises(Unsupported, match="'tiny'"):
        arrays_of(module)

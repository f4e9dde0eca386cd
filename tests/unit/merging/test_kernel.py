"""The kernel's values, types, bits and memory."""

import tracemalloc
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from spotgrad.errors import Malformed, Unsupported
from spotgrad.merging.kernel import to_master
from tests.unit.merging.plain import Coefficients, merge_tensors

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
HALF = Coefficients(server=0.5, clients=(0.5,))
THREE = Coefficients(server=0.5, clients=(0.3, 0.2))


def normal(seed: int, shape: tuple[int, ...], dtype: Any = np.float32) -> NDArray[Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def merge_one(
    server: NDArray[Any],
    clients: Sequence[NDArray[Any]],
    weights: Coefficients,
    block_bytes: int = 262_144,
) -> NDArray[Any]:
    copies = [{"w": client} for client in clients]
    return merge_tensors({"w": server}, copies, weights, block_bytes=block_bytes)["w"]


def bits(tensor: NDArray[Any]) -> tuple[np.dtype[Any], tuple[int, ...], bytes]:
    return tensor.dtype, tensor.shape, tensor.tobytes()


def model(seed: int) -> dict[str, NDArray[Any]]:
    return {
        "conv.weight": normal(seed, (7, 3, 3)),
        "scale": normal(seed + 1, ()),
        "empty": normal(seed + 2, (0, 4)),
        "norm.num_batches_tracked": np.array(100 + seed, np.int64),
        "mask": np.array([True, seed > 0, False]),
        "table": np.arange(5, dtype=np.uint8) * (seed + 1),
        "double": normal(seed + 3, (11,), np.float64),
        "brain": normal(seed + 4, (9, 2), BFLOAT16),
    }


def test_names_order_shapes_and_dtypes_are_the_servers() -> None:
    server, client = model(0), dict(reversed(model(1).items()))

    merged = merge_tensors(server, [client], HALF)

    assert list(merged) == list(server)
    for name, tensor in merged.items():
        assert (tensor.dtype, tensor.shape) == (server[name].dtype, server[name].shape)


def test_the_result_is_new_and_read_only_inputs_stay_as_they_were() -> None:
    server, client = model(0), model(1)
    before = {name: bits(tensor) for name, tensor in [*server.items(), *client.items()]}
    for tensor in (*server.values(), *client.values()):
        tensor.flags.writeable = False

    merged = merge_tensors(server, [client], HALF)

    assert {n: bits(t) for n, t in [*server.items(), *client.items()]} == before
    for name, tensor in merged.items():
        assert tensor.flags.writeable
        assert tensor.flags.c_contiguous
        assert not np.shares_memory(tensor, server[name])
        assert not np.shares_memory(tensor, client[name])


def test_float32_is_multiplied_and_added_in_float32_in_order() -> None:
    server, first, second = normal(0, (500,)), normal(1, (500,)), normal(2, (500,))

    merged = merge_one(server, [first, second], THREE)

    wanted = [
        np.float32(np.float32(a * np.float32(0.5)) + np.float32(b * np.float32(0.3)))
        + np.float32(c * np.float32(0.2))
        for a, b, c in zip(server, first, second, strict=True)
    ]
    assert merged.tolist() == [float(value) for value in wanted]


def test_float64_is_blended_in_float64() -> None:
    server, client = np.array([1.0, 1 / 3]), np.array([1.0 + 2.0**-40, 0.1])

    merged = merge_one(server, [client], Coefficients(server=0.9, clients=(0.1,)))

    assert merged.tolist() == [1.0 * 0.9 + (1.0 + 2.0**-40) * 0.1, 1 / 3 * 0.9 + 0.1 * 0.1]


def test_a_float32_client_of_a_float64_server_is_widened() -> None:
    server, client = np.array([1 / 3]), np.array([0.1], np.float32)

    assert merge_one(server, [client], HALF)[0] == 1 / 3 * 0.5 + float(client[0]) * 0.5


@pytest.mark.parametrize(
    ("dtype", "torch_dtype"), [(BFLOAT16, torch.bfloat16), (np.float16, torch.float16)]
)
def test_a_16_bit_client_is_read_as_torch_reads_it(dtype: Any, torch_dtype: torch.dtype) -> None:
    server, client = normal(0, (300,)), normal(1, (300,), dtype)

    merged = merge_one(server, [client], THREE_TO_ONE, block_bytes=64)

    words = torch.from_numpy(client.view(np.int16).copy()).view(torch_dtype)
    wanted = torch.from_numpy(server) * 0.75 + words.to(torch.float32) * 0.25
    assert bits(merged) == bits(wanted.numpy())


THREE_TO_ONE = Coefficients(server=0.75, clients=(0.25,))


@pytest.mark.parametrize(
    ("dtype", "torch_dtype"), [(BFLOAT16, torch.bfloat16), (np.float16, torch.float16)]
)
def test_a_16_bit_server_is_rounded_once_at_the_end(dtype: Any, torch_dtype: torch.dtype) -> None:
    server, client = normal(0, (300,), dtype), normal(1, (300,), dtype)

    merged = merge_one(server, [client], THREE_TO_ONE, block_bytes=64)

    wide = [torch.from_numpy(each.astype(np.float32)) for each in (server, client)]
    wanted = (wide[0] * 0.75 + wide[1] * 0.25).to(torch_dtype).view(torch.int16).numpy()
    assert merged.dtype == dtype
    assert merged.view(np.int16).tolist() == wanted.tolist()


def test_bfloat16_bits_are_the_upper_half_of_float32() -> None:
    client = np.array([0x3FC0, 0xC2F7, 0x0001, 0x7F7F], np.uint16)
    wanted = (client.astype(np.uint32) << 16).view(np.float32)

    merged = merge_one(np.zeros(4, np.float32), [client.view(BFLOAT16)], Coefficients(0.0, (1.0,)))

    assert bits(merged) == bits(wanted)


def test_batch_norm_counters_take_the_largest_and_stay_int64() -> None:
    server = {"bn.num_batches_tracked": np.array(100)}
    clients = [{"bn.num_batches_tracked": np.array(count)} for count in (110, 90)]

    merged = merge_tensors(server, clients, THREE)["bn.num_batches_tracked"]

    assert (merged.dtype, merged.shape, int(merged)) == (np.dtype(np.int64), (), 110)


def test_integers_are_compared_element_by_element_and_exactly() -> None:
    server = np.array([2**53 + 1, -5, 3], np.int64)
    client = np.array([2**53, -4, 3], np.int64)

    assert merge_one(server, [client], HALF, block_bytes=8).tolist() == [2**53 + 1, -4, 3]


def test_booleans_stay_the_servers() -> None:
    server, client = np.array([True, False, True]), np.array([False, True, True])

    assert merge_one(server, [client], HALF).tolist() == [True, False, True]


def test_an_empty_tensor_and_a_scalar_keep_their_shape() -> None:
    merged = merge_tensors(
        {"empty": np.empty((0, 3), np.float32), "scalar": np.array(1, np.float32)},
        [{"empty": np.empty((0, 3), np.float32), "scalar": np.array(3, np.float32)}],
        HALF,
    )

    assert merged["empty"].shape == (0, 3)
    assert (merged["scalar"].shape, float(merged["scalar"])) == ((), 2.0)


def test_without_clients_the_server_is_copied() -> None:
    server = model(0)

    merged = merge_tensors(server, [], Coefficients(server=1.0, clients=()))

    assert {n: bits(t) for n, t in merged.items()} == {n: bits(t) for n, t in server.items()}


@given(
    size=st.integers(0, 400),
    block_bytes=st.one_of(st.integers(1, 64), st.integers(65, 4_000)),
    seed=st.integers(0, 1000),
    dtype=st.sampled_from([np.float32, np.float64, BFLOAT16, np.float16, np.int16]),
)
def test_any_block_size_gives_the_same_bits(
    size: int, block_bytes: int, seed: int, dtype: Any
) -> None:
    server, *clients = (10 * normal(seed + each, (size,)) for each in range(3))
    server, clients = server.astype(dtype), [client.astype(dtype) for client in clients]

    merged = merge_one(server, clients, THREE, block_bytes=block_bytes)

    assert bits(merged) == bits(merge_one(server, clients, THREE))


def strided(tensor: NDArray[Any]) -> Mapping[str, NDArray[Any]]:
    """The same values in other memory layouts."""
    padded = np.zeros((2 * tensor.shape[0], tensor.shape[1] + 3), tensor.dtype)
    padded[::2, 1:-2] = tensor
    shifted = np.zeros(tensor.nbytes + 1, np.uint8)[1:].view(tensor.dtype).reshape(tensor.shape)
    shifted[...] = tensor
    backwards = tensor[::-1, ::-1].copy()
    return {
        "columns first": np.asfortranarray(tensor),
        "every second row": padded[::2, 1:-2],
        "reversed": backwards[::-1, ::-1],
        "unaligned": shifted,
    }


@pytest.mark.parametrize("layout", ["columns first", "every second row", "reversed", "unaligned"])
@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16, np.int32])
def test_any_memory_layout_gives_the_same_bits(layout: str, dtype: Any) -> None:
    server, client = [(9 * normal(seed, (13, 17))).astype(dtype) for seed in (0, 1)]
    wanted = bits(merge_one(server, [client], HALF))

    odd_server, odd_client = strided(server)[layout], strided(client)[layout]
    merged = merge_one(odd_server, [odd_client], HALF, block_bytes=128)

    assert bits(merged) == wanted


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16, np.int64])
def test_no_temporary_of_model_size(dtype: Any, transposed: bool) -> None:  # noqa: FBT001 - a parameter of the test
    shape, block_bytes = (1000, 1000), 16_384
    server = np.ones(shape, np.int64 if dtype == np.int64 else np.float32)
    clients = [np.full(shape, value, dtype) for value in (2, 3)]
    if transposed:
        server, clients = server.T, [client.T for client in clients]

    tracemalloc.start()
    merged = merge_one(server, clients, THREE, block_bytes)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak - merged.nbytes < 6 * block_bytes
    assert merged[3, 5] == (3 if dtype == np.int64 else np.float32(1.7))


def test_a_missing_tensor_is_named() -> None:
    with pytest.raises(Malformed, match="tensor 'w' is missing from client-0"):
        merge_tensors({"w": normal(0, (2,))}, [{"v": normal(0, (2,))}], HALF)


def test_a_shape_that_numpy_would_broadcast_is_refused() -> None:
    with pytest.raises(Malformed, match=r"tensor 'w' has shape \(1,\) in client-0: expected"):
        merge_one(normal(0, (4,)), [normal(1, (1,))], HALF)


def test_another_kind_of_dtype_is_refused() -> None:
    with pytest.raises(Malformed, match="tensor 'w' has dtype float32 in client-0: expected"):
        merge_one(np.arange(4), [normal(1, (4,))], HALF)


def test_a_complex_server_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="tensor 'w' has dtype complex64"):
        merge_one(np.ones(2, np.complex64), [], Coefficients(1.0, ()))


def test_every_input_of_the_recipe_must_be_there() -> None:
    with pytest.raises(Malformed, match="the recipe needs client-1, which is not there"):
        merge_one(normal(0, (2,)), [normal(1, (2,))], THREE)


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16])
def test_a_master_holds_16_bit_floats_as_float32(dtype: Any) -> None:
    values = normal(0, (3, 4), dtype)

    master = to_master({"w": values, "scalar": values[0, 0].reshape(())})

    assert bits(master["w"]) == bits(values.astype(np.float32))
    assert (master["scalar"].dtype, master["scalar"].shape) == (np.dtype(np.float32), ())


def test_a_master_copies_everything_else_as_it_is() -> None:
    tensors = {name: each for name, each in model(0).items() if name != "brain"}
    tensors["strided"] = normal(5, (4, 6)).T

    master = to_master(tensors)

    assert list(master) == list(tensors)
    for name, tensor in master.items():
        assert bits(tensor) == bits(tensors[name])
        assert tensor.flags.c_contiguous
        assert not np.shares_memory(tensor, tensors[name])

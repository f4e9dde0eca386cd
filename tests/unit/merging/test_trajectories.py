"""Every rule follows its golden trajectory, and the trajectory is what its paper says."""

import json
from typing import Any

import numpy as np
import pytest

from spotgrad.merging.rule import RULES
from tests.unit.merging import reference
from tests.unit.merging.stage import script, start
from tests.unit.merging.trajectories import CASES, IN_FLIGHT, RESULTS, document, path


def values(step: Any, kept: str, tensor: str) -> list[float]:
    return [float.fromhex(value) for value in step[kept][tensor]]


def test_every_rule_has_one() -> None:
    assert {case["rule"] for case in CASES.values()} == set(RULES)
    assert set(reference.STEPS) == set(RULES)


@pytest.mark.parametrize("name", CASES)
def test_it_is_followed_bit_for_bit(name: str) -> None:
    assert document(name) == json.loads(path(name).read_text())


@pytest.mark.parametrize("name", CASES)
def test_it_is_right(name: str) -> None:
    golden = json.loads(path(name).read_text())["objects_after_each_result"]
    options = {key: value for key, value in CASES[name].items() if key != "ema"}
    results = list(script(RESULTS, in_flight=IN_FLIGHT))
    right = reference.follow(options["rule"], options, results, start(), IN_FLIGHT)
    assert len(golden) == RESULTS
    for step, server in zip(golden, right, strict=True):
        largest = 1 + float(np.abs(server.w).max())
        assert values(step, "server", "w") == pytest.approx(server.w, abs=4e-6 * largest)
        assert values(step, "server", "bn") == pytest.approx(server.bn, abs=4e-6)


@pytest.mark.parametrize(
    ("name", "kept", "letter"),
    [
        ("dc_asgd_adaptive", "square", "square"),
        ("delayed_nesterov", "momentum", "m"),
        ("delayed_nesterov_spread", "momentum", "m"),
        ("diloco", "momentum", "m"),
        ("diloco_samples", "momentum", "m"),
    ],
)
def test_what_a_rule_keeps_is_right(name: str, kept: str, letter: str) -> None:
    golden = json.loads(path(name).read_text())["objects_after_each_result"]
    results = list(script(RESULTS, in_flight=IN_FLIGHT))
    right = reference.follow(CASES[name]["rule"], CASES[name], results, start(), IN_FLIGHT)
    for step, server in zip(golden, right, strict=True):
        assert (kept in step) == (letter in server.kept)
        if kept in step:
            wanted = np.abs(server.kept[letter])  # the paper's points the other way
            assert np.abs(values(step, kept, "w")) == pytest.approx(wanted, abs=4e-6)


def test_the_ema_is_the_bias_corrected_average_of_every_server_copy() -> None:
    golden = json.loads(path("ema").read_text())["objects_after_each_result"]
    copies = [np.array(values(step, "server", "w")) for step in golden]
    for number, step in enumerate(golden, start=1):
        weights = [0.9 ** (number - each) for each in range(1, number + 1)]
        wanted = np.average(copies[:number], axis=0, weights=weights)
        assert values(step, "ema", "w") == pytest.approx(wanted, abs=4e-6)

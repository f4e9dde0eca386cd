"""Every worker test has a world of its own, and leaves no user code behind."""

from collections.abc import Iterator

import pytest
import torch

from tests.worker_image.world import World


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """As the worker does by default; two test processes must not fight for the cores either."""
    torch.set_num_threads(1)

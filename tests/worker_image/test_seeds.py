import hashlib
import random

import numpy as np
import torch

from worker_image.seeds import random_states, restore_random_states, seed_everything, subtask_seed


def test_the_seed_of_a_subtask_is_the_digest_of_what_it_is() -> None:
    digest = hashlib.sha256(b"5/tiny-job/2/1/7").hexdigest()
    assert subtask_seed(5, "tiny-job", 2, 1, 7) == int(digest[:16], 16)
    others = {
        subtask_seed(5, "tiny-job", 2, 1, 7),
        subtask_seed(6, "tiny-job", 2, 1, 7),
        subtask_seed(5, "tiny-jobs", 2, 1, 7),
        subtask_seed(5, "tiny-job", 3, 1, 7),
        subtask_seed(5, "tiny-job", 2, 2, 7),
        subtask_seed(5, "tiny-job", 2, 1, 8),
    }
    assert len(others) == 6


def test_every_generator_that_user_code_may_draw_from_is_seeded() -> None:
    def draws(seed: int) -> list[float]:
        generator = seed_everything(seed)
        values = [float(torch.rand(1)), float(torch.rand(1, generator=generator))]
        return [*values, np.random.rand(), random.random()]  # noqa: NPY002, S311 - what user code does

    assert draws(2**64 - 1) == draws(2**64 - 1)
    assert not set(draws(1)) & set(draws(2))


def test_all_generators_go_on_from_where_they_were() -> None:
    def draw() -> list[float]:
        pair = [float(torch.rand(())), random.gauss(0, 1)]
        return [*pair, float(np.random.normal()), random.gauss(5, 1)]  # noqa: NPY002 - as users do

    seed_everything(3)
    draw()  # gauss and normal keep a second value back
    states = random_states()
    expected = [draw(), draw()]
    seed_everything(4)
    restore_random_states(states)
    assert [draw(), draw()] == expected

import hashlib
import random

import numpy as np
import torch

from worker_image.seeds import seed_everything, subtask_seed


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

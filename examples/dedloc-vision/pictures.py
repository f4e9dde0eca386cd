"""The data set ``pictures``: 1,797 real images of handwritten digits, from scikit-learn.

``spotgrad`` calls ``arrays()``. The labels are there to judge what was learnt; nothing trains on
them.
"""

import numpy as np
from sklearn.datasets import load_digits

SHARDS = 16
VALIDATION = 360
SEED = 0


def arrays() -> dict[str, dict[str, np.ndarray]]:
    """Return the columns of each split: ``x`` (pixels from 0 to 1) and ``y`` (the digit)."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(images))
    x = (images.reshape(-1, 1, 8, 8)[order] / 16).astype(np.float32)
    y = labels.astype(np.int64)[order]
    return {
        "train": {"x": x[VALIDATION:], "y": y[VALIDATION:]},
        "validation": {"x": x[:VALIDATION], "y": y[:VALIDATION]},
    }

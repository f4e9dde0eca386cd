"""The images that the papers' experiments are repeated on: Fashion-MNIST, or scikit-learn's digits.

Fashion-MNIST is Debian's package ``dataset-fashion-mnist`` (MIT), or the four files of
https://github.com/zalandoresearch/fashion-mnist in any folder; its images are halved to 14 x 14,
so that one core is enough. Columns as in a job's data set: ``x`` uint8 images, ``y`` labels.
"""

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from spotgrad.planning.sharding import TRAIN, VALIDATION, Arrays

DEBIAN = Path("/usr/share/datasets/fashion-mnist")
_IMAGES_HEADER, _LABELS_HEADER = 16, 8
_SIDE = 28


def fashion(folder: Path, samples: int) -> dict[str, Arrays]:
    """Return the first ``samples`` training images, and all 10,000 test images as validation."""
    return {
        TRAIN: {name: column[:samples] for name, column in _read(folder, "train").items()},
        VALIDATION: _read(folder, "t10k"),
    }


def digits() -> dict[str, Arrays]:
    """Return 1,437 images of 8 x 8 for training and 360 for validation, made as bright."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    x = (images.reshape(-1, 8, 8)[order] * 15).astype(np.uint8)
    y = labels.astype(np.int64)[order]
    return {TRAIN: {"x": x[360:], "y": y[360:]}, VALIDATION: {"x": x[:360], "y": y[:360]}}


def _read(folder: Path, part: str) -> dict[str, NDArray[np.generic]]:
    images = _bytes(folder / f"{part}-images-idx3-ubyte.gz", _IMAGES_HEADER)
    labels = _bytes(folder / f"{part}-labels-idx1-ubyte.gz", _LABELS_HEADER)
    return {"x": _halved(images.reshape(-1, _SIDE, _SIDE)), "y": labels.astype(np.int64)}


def _halved(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return images of half the width and height: each pixel is the mean of four, cut off."""
    squares = images.reshape(-1, _SIDE // 2, 2, _SIDE // 2, 2).astype(np.uint16)
    halved: NDArray[np.uint8] = (squares.sum(axis=(2, 4)) // 4).astype(np.uint8)
    return halved


def _bytes(path: Path, header: int) -> NDArray[np.uint8]:
    if not path.is_file():
        raise SystemExit(
            f"{path}: there is no such file; install the Debian package dataset-fashion-mnist,"
            " or name the folder with its four files with --data"
        )
    return np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=header)

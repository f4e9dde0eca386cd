"""The data set ``prose``: English text that every Python carries, the language reference.

``spotgrad`` calls ``arrays()``. Each sample is two neighbouring segments of ``SEGMENT`` words, as
numbers; the ``WORDS`` most frequent words have one of their own, the others share ``UNKNOWN``.
"""

import re
from collections import Counter
from pydoc_data.topics import topics

import numpy as np

SHARDS = 24
SEGMENT = 24
WORDS = 2_000
PADDING, MASK, UNKNOWN, FIRST_WORD = 0, 1, 2, 3
VALIDATION_SHARE = 0.1
SEED = 0


def arrays() -> dict[str, dict[str, np.ndarray]]:
    """Return the column ``words`` of each split: (samples, 2 x SEGMENT) int64."""
    words = [word for name in sorted(topics) for word in _words(topics[name])]
    known = [word for word, _ in Counter(words).most_common(WORDS)]
    number = {word: FIRST_WORD + place for place, word in enumerate(known)}
    numbers = np.array([number.get(word, UNKNOWN) for word in words], np.int64)
    pairs = numbers[: len(numbers) // (2 * SEGMENT) * 2 * SEGMENT].reshape(-1, 2 * SEGMENT)
    pairs = pairs[np.random.default_rng(SEED).permutation(len(pairs))]
    held_out = int(VALIDATION_SHARE * len(pairs))
    return {"train": {"words": pairs[held_out:]}, "validation": {"words": pairs[:held_out]}}


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+|[0-9]+|[^\sa-z0-9]", text.lower())

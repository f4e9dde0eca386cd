"""The names of the gradient codecs: what a job file may ask for, and a result may say of itself.

Apart from their arithmetic (``gradient_packing``), so that a job file is read without numpy.
"""

from collections.abc import Mapping
from typing import Final, Literal

Codec = Literal["fp32", "fp16", "scaled-fp16", "int8-blockwise"]
BITS: Final[Mapping[Codec, int]] = {
    "fp32": 32,
    "fp16": 16,
    "scaled-fp16": 16,
    "int8-blockwise": 8,
}
"""Of each number on its way; the scales of tensors and blocks, a few numbers each, apart."""

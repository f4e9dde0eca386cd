"""The names of the gradient codecs: what a job file may ask for, and a result may say of itself.

Apart from their arithmetic (``gradient_packing``), so that a job file is read without numpy.
"""

from typing import Literal

Codec = Literal["fp32", "fp16", "scaled-fp16", "int8-blockwise"]

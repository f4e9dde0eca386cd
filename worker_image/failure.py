"""An exception of the user's code as the result that reports it: one line, and where it happened.

Text from user code may hold anything, so it is cut and made encodable here; the head and the
admission gate read it as it is.
"""

import traceback
from typing import Final

from spotgrad.protocol.result import Failed
from worker_image.watch import Watch

__all__ = ["failed"]

MOST_ERROR_CHARACTERS: Final = 500
MOST_TRACEBACK_CHARACTERS: Final = 20_000
MOST_ROWS: Final = 256


def failed(error: BaseException, watch: Watch) -> Failed:
    """Return the result that says what was raised, and where ``watch`` was by then.

    Of a long traceback the end is kept, of many rows the first.
    """
    lines = traceback.format_exception_only(error)
    # A SyntaxError shows its source first; every other type says all in the first line.
    line = lines[-1] if isinstance(error, SyntaxError) else lines[0]
    trace = "".join(traceback.format_exception(error))
    return Failed(
        error=_encodable(line.strip().partition("\n")[0][:MOST_ERROR_CHARACTERS]),
        traceback=_encodable(trace[-MOST_TRACEBACK_CHARACTERS:]),
        batch_idx=watch.batch_idx,
        shard=watch.shard,
        rows=() if watch.rows is None else tuple(watch.rows[:MOST_ROWS].tolist()),
    )


def _encodable(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 document can hold."""
    return text.encode("utf-8", "replace").decode()

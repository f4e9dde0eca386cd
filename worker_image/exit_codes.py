"""What a worker's end means to whoever starts workers.

==== ========================================================================================
code meaning
==== ========================================================================================
0    idle, drained, or gone on notice: its message is back, with a partial if steps were done
2    the command line is wrong
65   a person has to act: a setting, a permission, a bucket or queue that does not exist
75   try again on a fresh worker: store or queue failed many times in a row
81   bad host: the GPUs that the worker must have are absent or do not compute
82   bad host: its disk is full, or was too full to begin
==== ========================================================================================

81 and 82 ask for another machine: the same one would end the same way, and no message was lost to
it. 65 and 75 are EX_DATAERR and EX_TEMPFAIL of sysexits.h; a worker that is killed ends as its
signal says (137, 143). In the image the worker is the child of tini, which is PID 1 and forwards
signals; nothing here relies on being PID 1.
"""

from typing import ClassVar, Final

from spotgrad.errors import Reject

__all__ = ["DISK", "DONE", "GPU", "REJECT", "RETRY", "BadDisk", "BadGpu", "BadHost"]

DONE: Final = 0
REJECT: Final = 65
RETRY: Final = 75
GPU: Final = 81
DISK: Final = 82


class BadHost(Reject):
    """This machine cannot do the work; another one can."""

    exit_code: ClassVar[int] = REJECT


class BadGpu(BadHost):
    """The GPUs that the worker must have are absent or do not compute."""

    exit_code = GPU


class BadDisk(BadHost):
    """The disk is full."""

    exit_code = DISK

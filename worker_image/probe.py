"""Is this host fit for work? Asked once, before the worker receives anything.

A bad host that receives first fails a thousand messages into the dead-letter queue. Invariant:
nothing here receives, writes to the bucket, or leaves anything behind.
"""

import shutil
import tempfile
from pathlib import Path
from types import ModuleType

import torch

from spotgrad.ports import ObjectReader, TaskGauge
from spotgrad.protocol.keys import ACTIVE_PREFIX
from spotgrad.settings import WorkerSettings
from worker_image.exit_codes import BadDisk, BadGpu

__all__ = ["probe"]


def probe(store: ObjectReader, queue: TaskGauge, settings: WorkerSettings) -> None:
    """Return when GPU, disk, bucket and queue are as they must be.

    Raises:
        BadHost: the GPU or the disk is not.
        Retry: bucket or queue could not be reached now.
        Reject: bucket or queue does not exist, or may not be used.
    """
    if settings.gpus:
        check_gpus(settings.gpus)
    check_disk(settings)
    next(iter(store.list(ACTIVE_PREFIX)), None)
    queue.depth()


def check_gpus(wanted: int, cuda: ModuleType = torch.cuda, *, device: str = "cuda") -> None:
    """Return when ``wanted`` GPUs are there and the first of them computes.

    Raises:
        BadGpu: they are not, or it does not: the driver and torch may not fit together.
    """
    found = cuda.device_count() if cuda.is_available() else 0
    if found < wanted:
        raise BadGpu(f"SPOTGRAD_GPUS is {wanted}, but torch sees {found}: use another machine")
    try:
        total = torch.arange(4, device=device).sum().item()
    except RuntimeError as error:
        line = str(error).partition("\n")[0]
        raise BadGpu(f"the GPU does not compute: {line}: use another machine") from error
    if total != 6:
        raise BadGpu(f"the GPU says that 0 + 1 + 2 + 3 is {total}: use another machine")


def check_disk(settings: WorkerSettings) -> None:
    """Return when the disk of the cache (without one, of temporary files) has room.

    Raises:
        BadDisk: it has not, or it cannot be asked.
    """
    folder = Path(settings.cache_directory or tempfile.gettempdir())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise BadDisk(f"cache {folder}: {error}: use another machine") from error
    if free < settings.free_disk_bytes:
        raise BadDisk(
            f"{folder}: {free:,} bytes are free, SPOTGRAD_FREE_DISK_BYTES asks for "
            f"{settings.free_disk_bytes:,}: use another machine"
        )

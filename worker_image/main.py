"""The worker's composition root: settings, adapters, the loop, and what its end means to others.

Exit codes: 0 idle or drained, 75 try again on a fresh worker (``Retry``), 65 a person has to act
(``Reject``). The numbers are EX_TEMPFAIL and EX_DATAERR of sysexits.h.
"""

import logging
import os
import platform
import sys
from pathlib import Path
from typing import Final

import torch

from spotgrad.aws.clients import make_clients
from spotgrad.aws.s3 import S3Store
from spotgrad.aws.sqs import SqsQueue
from spotgrad.errors import Reject, Retry
from spotgrad.settings import WorkerSettings, read
from spotgrad.system import SystemClock, new_id
from worker_image.cache import Cache, FolderCache, MemoryCache
from worker_image.inputs import Inputs
from worker_image.interruption import Stop
from worker_image.loop import Options, Ports, Worker
from worker_image.task_code import TaskCode
from worker_image.workshop import Workshop

__all__ = ["DONE", "REJECT", "RETRY", "run"]

log = logging.getLogger(__name__)

DONE: Final = 0
REJECT: Final = 65
RETRY: Final = 75


def run(stop: Stop, *, until_idle_seconds: float | None, slow_seconds: float) -> int:
    """Work as the environment says, and return the exit code."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger(__package__).setLevel(
        logging.INFO
    )  # botocore's own INFO tells nobody a thing
    code = TaskCode(Path.cwd())
    try:
        settings = read(WorkerSettings)
        torch.set_num_threads(settings.threads)
        options = Options(
            worker=settings.worker_name or f"{platform.node()}-{os.getpid()}",
            lease_seconds=settings.lease_seconds,
            until_idle_seconds=until_idle_seconds,
            slow_seconds=slow_seconds,
        )
        _compose(settings, options, code, stop).run()
    except Retry as error:
        log.error("gave up for now: %s", error)  # noqa: TRY400 - an error of ours says all in one line
        return RETRY
    except Reject as error:
        log.error("cannot work: %s", error)  # noqa: TRY400 - an error of ours says all in one line
        return REJECT
    finally:
        code.close()
    return DONE


def _compose(settings: WorkerSettings, options: Options, code: TaskCode, stop: Stop) -> Worker:
    clients = make_clients()
    store = S3Store(clients.s3, settings.bucket)
    queue = SqsQueue(clients.sqs, settings.subtasks_queue_url)
    inputs = Inputs(store, _cache(settings))
    ports = Ports(store, queue, SystemClock(), new_id)
    return Worker(ports, inputs, Workshop(inputs, code), stop, options)


def _cache(settings: WorkerSettings) -> Cache:
    if settings.cache_directory is None:
        return MemoryCache()
    return FolderCache(Path(settings.cache_directory))

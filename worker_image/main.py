"""The worker's composition root: settings, adapters, the loop, and what its end means to others.

What the exit codes mean stands in ``exit_codes``.
"""

import logging
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from spotgrad.aws.clients import make_clients
from spotgrad.aws.s3 import S3Store
from spotgrad.aws.sqs import SqsQueue
from spotgrad.errors import Reject, Retry
from spotgrad.settings import HostSettings, WorkerSettings, read
from spotgrad.system import SystemClock, new_id
from worker_image.assignment import Options, Ports
from worker_image.cache import FOLDER_BYTES, MEMORY_BYTES, Cache, FolderCache, MemoryCache
from worker_image.exit_codes import DONE, REJECT, RETRY, BadHost
from worker_image.inputs import Inputs
from worker_image.interruption import Stop
from worker_image.loop import Worker
from worker_image.notice import NoticeBoard, sources_of
from worker_image.probe import probe
from worker_image.renewal import held_in
from worker_image.rounds import Rounds
from worker_image.task_code import TaskCode
from worker_image.workshop import Workshop

__all__ = ["run"]

log = logging.getLogger(__name__)


def run(stop: Stop, *, until_idle_seconds: float | None, slow_seconds: float) -> int:
    """Work as the environment says, and return the exit code.

    Raises:
        OtherCode: a message needs another process than this one.
    """
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
            notice_seconds=settings.notice_seconds,
            held=held_in(settings.held_message),
        )
        with _notices(settings, stop):
            _compose(settings, options, code, stop).run()
    except Retry as error:
        log.error("gave up for now: %s", error)  # noqa: TRY400 - an error of ours says all in one line
        return RETRY
    except BadHost as error:
        log.error("bad host: %s", error)  # noqa: TRY400 - an error of ours says all in one line
        return error.exit_code
    except Reject as error:
        log.error("cannot work: %s", error)  # noqa: TRY400 - an error of ours says all in one line
        return REJECT
    finally:
        code.close()
    return DONE


@contextmanager
def _notices(settings: WorkerSettings, stop: Stop) -> Iterator[None]:
    """Look for notices at once and then every few seconds, in a thread of their own."""
    clock = SystemClock()
    sources = sources_of(settings, read(HostSettings), clock)
    if not sources:
        yield
        return
    look = NoticeBoard(sources, stop).look
    rounds = Rounds(look, clock, seconds=settings.notice_poll_seconds, name="notices")
    rounds.next_at = clock.monotonic()
    with rounds:
        yield


def _compose(settings: WorkerSettings, options: Options, code: TaskCode, stop: Stop) -> Worker:
    ports = _ports(settings)
    if not stop.leaving:
        probe(ports.store, ports.queue, settings)
    inputs = Inputs(ports.store, _cache(settings))
    return Worker(ports, inputs, Workshop(inputs, code), stop, options)


def _ports(settings: WorkerSettings) -> Ports:
    clients = make_clients()
    store = S3Store(clients.s3, settings.bucket)
    queue = SqsQueue(clients.sqs, settings.subtasks_queue_url)
    return Ports(store, queue, SystemClock(), new_id)


def _cache(settings: WorkerSettings) -> Cache:
    limit = settings.cache_bytes
    if settings.cache_directory is None:
        return MemoryCache(MEMORY_BYTES if limit is None else limit)
    return FolderCache(Path(settings.cache_directory), FOLDER_BYTES if limit is None else limit)

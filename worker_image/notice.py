"""Asks the machine every few seconds whether it is about to go, and tells the worker's ``Stop``.

The third source, SIGTERM, needs no asking (``interruption``). Invariant: a source that does not
answer the first time costs one question and one warning; after that SIGTERM has to do.
"""

import http.client
import logging
from collections.abc import Sequence
from typing import Final

from spotgrad.ports import Clock
from spotgrad.settings import HostSettings, WorkerSettings
from worker_image.interruption import Stop
from worker_image.machine import EcsTask, InstanceMetadata, Source

__all__ = ["NoticeBoard", "sources_of"]

log = logging.getLogger(__name__)

UNANSWERED: Final = (OSError, http.client.HTTPException)


class NoticeBoard:
    """All sources that a worker has; ``look`` is called every few seconds (``rounds``)."""

    def __init__(self, sources: Sequence[Source], stop: Stop) -> None:
        self._sources = list(sources)
        self._answered: set[str] = set()
        self._stop = stop

    def look(self) -> None:
        """Ask every source once."""
        for source in list(self._sources):
            try:
                notice = source.ask()
            except UNANSWERED as error:
                self._unanswered(source, error)
                continue
            self._answered.add(source.name)
            if notice is None:
                continue
            if notice.urgent:
                log.warning("notice: %s", notice.reason)
                self._sources.remove(source)  # it has said all
                self._stop.request(notice.seconds)
            elif not self._stop.leaving:
                log.warning("notice: %s: leaving after this subtask", notice.reason)
                self._stop.suggest()

    def _unanswered(self, source: Source, error: Exception) -> None:
        if source.name in self._answered:  # a hiccup
            log.debug("%s: %s", source.name, error)
            return
        log.warning("no %s (%s): SIGTERM is the only notice", source.name, error)
        self._sources.remove(source)


def sources_of(settings: WorkerSettings, host: HostSettings, clock: Clock) -> list[Source]:
    """Return whom to ask on this machine."""
    sources: list[Source] = []
    if settings.metadata_endpoint is not None:
        sources.append(InstanceMetadata(settings.metadata_endpoint, clock))
    elif not host.aws_ec2_metadata_disabled:
        sources.append(InstanceMetadata(host.aws_ec2_metadata_service_endpoint, clock))
    if host.ecs_container_metadata_uri_v4 is not None:
        sources.append(EcsTask(host.ecs_container_metadata_uri_v4))
    return sources

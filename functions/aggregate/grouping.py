"""An SQS batch taken apart by job, so that each job's results are merged in one pass."""

from functions.runtime import logger
from spotgrad.errors import Malformed
from spotgrad.protocol.events import SqsRecord, objects_created
from spotgrad.protocol.keys import ResultKey

Group = list[tuple[str, ResultKey]]
"""Message ids and the results that they announce, in order of arrival."""


def group_by_job(records: tuple[SqsRecord, ...]) -> tuple[dict[str, Group], list[str]]:
    """Return the batch by job, and the ids of messages that nobody can read."""
    jobs: dict[str, Group] = {}
    malformed: list[str] = []
    for record in records:
        try:
            created = objects_created(record.body)
        except Malformed as reason:
            malformed.append(_noted(record, reason))
            continue
        for one in created:
            try:
                key = ResultKey.parse(one.key)
            except Malformed as reason:  # the others of its message are results all the same
                malformed.append(_noted(record, reason))
            else:
                jobs.setdefault(key.job, []).append((record.message_id, key))
    return jobs, malformed


def _noted(record: SqsRecord, reason: Malformed) -> str:
    logger.warning("malformed", message_id=record.message_id, reason=str(reason))
    return record.message_id

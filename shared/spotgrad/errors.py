"""What can go wrong, arranged by what the caller should do about it.

* Retry -- leave the message; the queue brings it back
  * StoreUnavailable     -- throttled, timed out, 5xx: nothing is known about the request's effect
  * ConditionFailed      -- someone committed first (412 or 409): read again, decide again
  * PlanningInProgress   -- another upload of the same job is being planned right now
* Reject -- keep the evidence, never try again
  * InvalidJob           -- the job file, or what it names, cannot be planned
  * Malformed            -- bytes that are not what their key or queue promises
  * NotFound             -- a key that must exist does not
  * AccessDenied         -- credentials or policy forbid the call: a person has to act
  * Unsupported          -- valid, but this version cannot do it
* Skip -- nothing to do, and that is fine
  * NotOpen              -- the subtask is merged, dead, of another run, or its job has ended
  * LeaseLost            -- the message belongs to someone else now: publish nothing, delete nothing

Messages are one line that names the culprit and, where there is one, the remedy.
"""


class SpotgradError(Exception):
    """Root of the tree; raise a leaf, catch a branch."""


class Retry(SpotgradError):
    """The same call may succeed later: leave the message in its queue."""


class Reject(SpotgradError):
    """The same call can never succeed: keep the evidence and go on."""


class Skip(SpotgradError):
    """There is nothing to do, and that is fine."""


class StoreUnavailable(Retry):
    """The store or queue throttled, timed out or failed; the effect of the call is unknown."""


class ConditionFailed(Retry):
    """A conditional write lost (HTTP 412 or 409): read again, decide again."""


class PlanningInProgress(Retry):
    """Another upload of this job is being planned; try again when it is done."""


class InvalidJob(Reject):
    """A job file, or something that it names, that cannot be planned."""


class Malformed(Reject):
    """Bytes that are not what their key, queue or header promises."""


class NotFound(Reject):
    """A key that must exist does not."""


class AccessDenied(Reject):
    """Credentials or a policy forbid the call; a person has to act."""


class Unsupported(Reject):
    """Valid, but not built yet."""


class NotOpen(Skip):
    """The subtask is merged, dead, of another run, or its job has ended."""


class LeaseLost(Skip):
    """The message belongs to another receiver now: publish nothing, delete nothing."""

"""``pause``, ``resume`` and ``cancel``: a wish is written; the functions bring the job in line."""

from typing import Any, Final

from spotgrad.cli.output import Output
from spotgrad.errors import Unsupported
from spotgrad.ports import Clock, NewId, ObjectStore
from spotgrad.protocol.control import Control
from spotgrad.steps.change_control import change_control, read_control
from spotgrad.steps.read_status import Status, read_status

__all__ = ["cancel", "pause", "refuse_cancelled", "resume"]

_BEING_CANCELLED: Final = "it is being cancelled, and that is for good; submit it under a new name"


def pause(store: ObjectStore, clock: Clock, job: str, output: Output) -> bool:
    """Ask for the job to be paused; return whether nothing of it goes out from now on.

    Raises:
        NotFound: there is no such job.
        Unsupported: it is being cancelled.
    """
    status = read_status(store, job, clock.now())
    if status.ended:
        return _nothing(status, "pause", output, good=True)
    refuse_cancelled(store, job)
    change_control(store, job, lambda control: control.model_copy(update={"want": "pause"}))
    output.say(f"{job} is to pause: what is under way is still merged, nothing more goes out")
    output.advise_going_on(f"resume {job}")
    return _asked(status, "pause", output)


def resume(store: ObjectStore, clock: Clock, new_id: NewId, job: str, output: Output) -> bool:
    """Ask for the job to go on, with all that is open sent again; return whether it can.

    Raises:
        NotFound: there is no such job.
        Unsupported: it is being cancelled.
    """
    status = read_status(store, job, clock.now())
    if status.ended:
        return _nothing(status, "resume", output, good=False)
    refuse_cancelled(store, job)
    wish = {"want": "run", "resume": new_id()}
    change_control(store, job, lambda control: control.model_copy(update=wish))
    output.say(f"{job} is to go on: everything that is open is sent again")
    output.advise_going_on(f"watch {job}")
    return _asked(status, "run", output)


def cancel(store: ObjectStore, clock: Clock, job: str, output: Output) -> bool:
    """Ask for the job to be cancelled, for good; return whether nothing of it runs any more.

    Raises:
        NotFound: there is no such job.
    """
    status = read_status(store, job, clock.now())
    if status.ended:
        return _nothing(status, "cancel", output, good=True)
    change_control(store, job, lambda control: control.model_copy(update={"want": "cancel"}))
    output.say(f"{job} is to be cancelled: its workers stop at their next heartbeat")
    if status.version is not None:
        output.advise(f"pull {job}")
    return _asked(status, "cancel", output)


def refuse_cancelled(store: ObjectStore, job: str) -> None:
    """Raise ``Unsupported`` when the job is to be cancelled: a later wish must not undo that."""
    control: Control = read_control(store, job)
    if control.want == "cancel":
        raise Unsupported(f"job {job}: {_BEING_CANCELLED}")


def _nothing(status: Status, verb: str, output: Output, *, good: bool) -> bool:
    output.say(f"{status.job} is {status.state}: there is nothing to {verb}", "yellow")
    output.document(_document(status, None))
    return good


def _asked(status: Status, want: str, output: Output) -> bool:
    output.document(_document(status, want))
    return True


def _document(status: Status, want: str | None) -> dict[str, Any]:
    """``want`` is what was asked for, or null; ``state`` is how the job stood before."""
    return {"job": status.job, "state": status.state, "want": want}

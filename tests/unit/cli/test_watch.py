from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from spotgrad.cli.output import Output
from spotgrad.cli.watch import PERIOD_SECONDS, follow, watch
from spotgrad.directory.store import DirectoryStore
from spotgrad.errors import AccessDenied, SpotgradError, StoreUnavailable
from spotgrad.protocol.keys import HeadKey
from spotgrad.steps.read_status import Status
from tests.builders import JOB, Bench, model_ref
from tests.fakes.clock import FakeClock
from tests.fakes.store import FakeStore
from tests.unit.cli.conftest import Run
from tests.unit.cli.jobs import head, put_job, saved

RUNNING = Status(job=JOB, state="RUNNING")
PAUSED = Status(job=JOB, state="PAUSED")
ENDED = Status(job=JOB, state="DEGRADED")


class Shown:
    """The port ``Display``: remembers what it was given."""

    def __init__(self) -> None:
        self.updates: list[tuple[str, Sequence[str]]] = []

    def update(self, status: Status, notes: Sequence[str] = ()) -> None:
        self.updates.append((status.state, notes))


def followed(*seen: Status | SpotgradError) -> tuple[Status, Shown, list[float]]:
    news, shown, waits = iter(seen), Shown(), list[float]()

    def read() -> Status:
        found = next(news)
        if isinstance(found, SpotgradError):
            raise found
        return found

    return follow(read, shown, waits.append), shown, waits


def test_a_job_is_followed_to_its_end() -> None:
    last, shown, waits = followed(RUNNING, PAUSED, ENDED)
    assert last == ENDED
    assert [state for state, _ in shown.updates] == ["RUNNING", "PAUSED", "DEGRADED"]
    assert waits == [PERIOD_SECONDS] * 2


def test_no_news_is_no_end() -> None:
    last, shown, _ = followed(RUNNING, StoreUnavailable("slow down"), ENDED)
    assert last == ENDED
    assert shown.updates[1] == ("RUNNING", ["no news: slow down"])


@pytest.mark.parametrize("seen", [[StoreUnavailable("down")], [RUNNING, AccessDenied("no")]])
def test_what_waiting_cannot_mend_is_raised(seen: list[Status | SpotgradError]) -> None:
    with pytest.raises(SpotgradError):
        followed(*seen)


def states(store: FakeStore, *names: str) -> Iterator[None]:
    for name in names:
        present = head(state=name, reason="as asked", version=3, final=model_ref(3))
        store.put(HeadKey(JOB).render(), present.to_json())
        yield


@pytest.mark.parametrize(("end", "good"), [("SUCCEEDED", True), ("CANCELLED", False)])
def test_watching_says_how_it_ended(
    capsys: pytest.CaptureFixture[str], end: str, *, good: bool
) -> None:
    store = FakeStore()
    put_job(store, head())
    later = states(store, "RUNNING", end)
    watched = watch(store, FakeClock(), JOB, Output(as_json=False), lambda _: next(later))
    assert watched == good
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("RUNNING  epoch 1/3")
    assert lines[-3:] == [f"{JOB}  {end}", "reason: as asked", f"next: spotgrad pull {JOB}"]


def test_with_json_it_waits_and_prints_the_last_status(run: Run, tmp_path: Path) -> None:
    bench = Bench()
    bench.start(shards=2)
    bench.finish()
    saved(bench, tmp_path)
    ran = run("watch", JOB, "--json", "--bucket", tmp_path)
    assert (ran.code, ran.document["state"], ran.err) == (0, "SUCCEEDED", "")


def test_the_exit_code_is_1_unless_it_succeeded(run: Run, tmp_path: Path) -> None:
    bench = Bench()
    bench.start(shards=2)
    saved(bench, tmp_path).put(HeadKey(JOB).render(), head(state="FAILED").to_json())
    ran = run("watch", JOB, "--bucket", tmp_path)
    assert ran.code == 1
    assert ran.out.splitlines()[-1] == f"{JOB}  FAILED"


def test_a_job_in_a_folder_is_not_waited_for(run: Run, bucket: Path) -> None:
    put_job(DirectoryStore(bucket), head())
    ran = run("watch", JOB, "--bucket", bucket)
    assert ran.code == 1
    assert "nobody is at work in a folder; let it go on with spotgrad local run" in ran.err
    assert len(ran.err.splitlines()) == 1

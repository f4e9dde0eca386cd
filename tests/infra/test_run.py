"""A run on fakes: what it puts where, what it says, how it ends. The real one is in tests/e2e."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from infra.local import run as run_module
from infra.local.counters import Counters, Counts
from infra.local.fleet import Fleet
from infra.local.home import Home
from infra.local.ready import Ready, RunOptions
from infra.local.run import LocalRun, go_on, submit
from infra.local.stack import Stack
from spotgrad.cli.job import Job
from spotgrad.cli.main import main
from spotgrad.directory.store import DirectoryStore
from spotgrad.errors import InvalidJob, SpotgradError, StoreUnavailable
from spotgrad.planning.fleet import FleetView
from spotgrad.protocol.control import Control
from spotgrad.protocol.keys import ControlKey, FleetKey, HeadKey, JobFileKey
from spotgrad.protocol.muster import Muster
from spotgrad.steps.documents import find_head
from spotgrad.steps.read_status import Status
from spotgrad.system import SystemClock
from tests.builders import JOB, Bench, job_file, train
from tests.fakes.clock import FakeClock
from tests.fakes.queue import FakeQueue
from tests.fakes.store import FakeStore
from tests.infra.jobs import plan, planned, ready, submitted, write_job


class FakePump:
    def __init__(self) -> None:
        self.counters = Counters()

    def check(self) -> None:
        """Never breaks."""


class FakeEmulator:
    alive = True


class FakeStack:
    """A deployment that does nothing by itself."""

    def __init__(self, store: FakeStore, log: list[str]) -> None:
        self.store = store
        self.pump = FakePump()
        self.emulator = FakeEmulator()
        self.subtasks = FakeQueue()
        self.chaos = None
        self.counts = {"SubtasksQueue": 0, "SubtasksDeadLetterQueue": 0}
        self._log = log

    def start(self) -> None:
        self._log.append(f"start with {len(self.store.snapshot())} objects")

    def stop(self) -> None:
        self._log.append("stop")

    def calm(self) -> dict[str, int]:
        return {}

    def busy(self) -> bool:
        return self.counts["SubtasksQueue"] > 0

    def depths(self) -> Mapping[str, int]:
        return self.counts

    def worker_environment(self, name: str) -> dict[str, str]:
        return {"NAME": name}


class FakeFleet:
    """Workers; ``deaths`` says how many end before each call."""

    def __init__(self, log: list[str]) -> None:
        self.pids = {"local-1": 1, "local-2": 2}
        self.offer = Fleet.offer
        self.started = 0
        self.deaths: list[int] = []
        self.progress: list[int] = []
        self._log = log

    def look(self) -> FleetView:
        return FleetView(running=self.started)

    def start(self, workers: int) -> None:
        self.started += workers

    def tend(self, progress: int = 0) -> int:
        self.progress.append(progress)
        return self.deaths.pop(0) if self.deaths else 0

    def dismiss(self) -> None:
        self._log.append("dismiss")

    def stop(self) -> None:
        self._log.append("workers gone")


class Turns:
    """What happens while the run waits: one thing per wait, then nothing for ever."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.coming: list[Any] = []

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        if self.coming:
            self.coming.pop(0)()


class Scene:
    """One run with everything around it."""

    def __init__(self, job: Job, home: Home, store: FakeStore, *, resume: bool = False) -> None:
        self.log: list[str] = []
        self.store = store
        self.stack = FakeStack(store, self.log)
        self.fleet = FakeFleet(self.log)
        self.shown: list[tuple[Status, list[str]]] = []
        made = ready(job)
        if resume and find_head(home.kept, JOB) is not None:
            made = Ready(job, made.code, None)
        options = RunOptions(job, resume=resume)
        self.run = LocalRun(options, made, home, cast("Stack", self.stack))
        self.run.fleet = cast("Fleet", self.fleet)
        self.turns = Turns(FakeClock())
        self.run._clock = cast("Any", self.turns.clock)
        self.run._wait = cast("Any", self.turns)

    def watch(self) -> Status:
        return self.run.watch(lambda status, notes: self.shown.append((status, list(notes))))


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return write_job(tmp_path / "job", epochs=1)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(JOB, tmp_path / "root")


@pytest.fixture
def scene(job: Job, home: Home) -> Scene:
    return Scene(job, home, FakeStore())


def keys(store: FakeStore) -> list[str]:
    return list(store.snapshot())


def test_a_new_run_pushes_the_data_set_and_uploads_code_before_the_job_file(
    scene: Scene, job: Job
) -> None:
    written: list[str] = []
    scene.store.on_write = lambda write: written.append(write.key)
    scene.run.begin()
    assert scene.log == ["start with 0 objects"]  # events are on before anything is uploaded
    assert scene.fleet.progress == [0]  # and workers start meanwhile
    assert scene.store.get(JobFileKey(JOB).render()).body == job.body
    order = [key.split("/")[-1].split("-")[0] for key in dict.fromkeys(written)]
    assert order[-3:] == ["manifest.json", "code", "job.yaml"]
    assert find_head(scene.store, JOB) is None  # the rest is for the functions to do


def test_a_resumed_run_restores_and_asks_for_what_is_open(job: Job, home: Home) -> None:
    kept = planned(job)
    home.save(kept)
    scene = Scene(job, home, FakeStore(), resume=True)
    scene.run.begin()
    assert scene.log == [f"start with {len(kept.snapshot())} objects"]  # restored in silence
    assert set(keys(scene.store)) - set(keys(kept)) == {ControlKey(JOB).render()}
    first = Control.from_json(scene.store.get(ControlKey(JOB).render()).body).resume
    again = Scene(job, home, FakeStore(), resume=True)
    again.run.begin()
    assert Control.from_json(again.store.get(ControlKey(JOB).render()).body).resume != first


def test_a_redriven_run_goes_on_from_its_end(job: Job, home: Home) -> None:
    """The restored head has ended; that is not the end of this run."""
    bench = Bench()
    bench.start(epochs=1, retries={"failures": 0, "max_dead": 2})
    bench.aggregate(bench.failed(train(1, 3)))
    ended = bench.finish()
    home.save(bench.store)
    assert main(["dlq", "redrive", JOB, "--all", "--bucket", str(home.bucket)]) == 0
    scene = Scene(job, home, bench.store, resume=True)
    scene.run.begin()
    assert bench.head == ended  # the functions carry the wish out
    scene.turns.coming = [bench.reconcile, bench.finish]
    last = scene.watch()
    assert (last.state, last.subtasks.merged, last.subtasks.dead) == ("SUCCEEDED", 4, 0)
    assert [status.state for status, _ in scene.shown] == ["RUNNING", "SUCCEEDED"]
    assert bench.head.revision > ended.revision


def test_a_run_that_was_cut_off_before_planning_is_submitted_on_resume(
    job: Job, home: Home
) -> None:
    home.save(FakeStore())
    scene = Scene(job, home, FakeStore(), resume=True)
    scene.run.begin()
    plan(scene.store, job)
    assert find_head(scene.store, JOB) is not None


def test_a_job_file_is_uploaded_again_when_its_event_was_lost_amid_planning(job: Job) -> None:
    store = planned(job)
    store.delete(HeadKey(JOB).render())
    written: list[str] = []
    store.on_write = lambda write: written.append(write.key)
    submit(store, ready(job))
    assert set(written) == {JobFileKey(JOB).render()}
    plan(store, job)


def test_a_job_of_other_content_is_refused(job: Job) -> None:
    store = planned(job)
    other = write_job(job.directory, epochs=9)
    before = store.snapshot()
    with pytest.raises(InvalidJob, match="is taken by a job with job file other than this"):
        submit(store, ready(other))
    assert store.snapshot() == before


def test_watch_shows_the_job_until_it_ends(scene: Scene) -> None:
    bench = Bench()
    scene.stack.store = bench.store
    scene.fleet.deaths = [0, 2, 0, 1]

    def go_on() -> None:
        scene.stack.pump.counters.add("PlanFunction", Counts(errors=1, timeouts=2))
        scene.stack.pump.counters.add("AggregateFunction", Counts(invocations=9, retried=3))
        bench.aggregate(bench.trained(1, 0), bench.trained(1, 1))

    scene.turns.coming = [lambda: bench.start(epochs=1), go_on, lambda: None, bench.finish]
    last = scene.watch()
    assert last is scene.run.outcome.status
    assert [(status.state, status.subtasks.merged) for status, _ in scene.shown] == [
        ("RUNNING", 0),
        ("RUNNING", 2),
        ("RUNNING", 2),
        ("SUCCEEDED", 4),
    ]
    noted = "PlanFunction: 1 errors, 2 timeouts"
    assert [notes for _, notes in scene.shown] == [
        [],
        [noted, "workers replaced: 2"],
        [noted, "workers replaced: 2"],
        [noted, "workers replaced: 3"],
    ]
    assert scene.shown[0][0].workers == 2
    assert scene.run.outcome.workers_replaced == 3
    assert scene.fleet.progress == [0, 0, 2, 2]  # progress keeps the fleet patient


def test_workers_follow_the_work(job: Job, home: Home) -> None:
    """One for the initialization before anybody knows of it, then as many as work is open for."""
    bench = Bench()
    scene = Scene(job, home, bench.store)
    scene.run.begin()
    assert scene.fleet.started == 1
    seen: list[int] = []

    def note(act: Any = None) -> None:
        seen.append(scene.fleet.started)
        if act is not None:
            act()

    scene.turns.coming = [
        lambda: note(lambda: bench.start(4, workers={"max": 3}, epochs=1)),
        note,
        lambda: note(lambda: bench.aggregate(bench.trained(1, 0), bench.trained(1, 1))),
        lambda: note(bench.finish),
    ]
    assert scene.watch().state == "SUCCEEDED"
    assert seen == [1, 3, 3, 3]


def test_a_resumed_run_does_not_count_the_workers_of_the_one_before(job: Job, home: Home) -> None:
    kept = planned(job)
    key = FleetKey("local").render()
    kept.put(key, Muster(at=SystemClock().now(), workers=8).to_json())
    home.save(kept)
    scene = Scene(job, home, FakeStore(), resume=True)
    scene.run.begin()
    assert key not in scene.store.snapshot()


def test_a_refused_job_ends_the_watch(scene: Scene) -> None:
    bench = Bench()
    bench.upload()
    bench.store.put(JobFileKey(JOB).render(), job_file(name="other"))
    assert bench.plan().outcome == "refused"
    scene.stack.store = bench.store
    last = scene.watch()
    assert (last.state, last.version) == ("FAILED", None)
    assert "make them equal" in (last.reason or "")


def test_an_emulator_that_ended_ends_the_watch(scene: Scene) -> None:
    def die() -> None:
        scene.stack.emulator.alive = False

    scene.turns.coming = [die]
    with pytest.raises(StoreUnavailable, match=r"the local AWS emulator ended; see .*logs"):
        scene.watch()


def test_drain_waits_until_the_queues_are_empty(scene: Scene) -> None:
    scene.stack.counts.update(SubtasksQueue=2, SubtasksDeadLetterQueue=1)

    def less() -> None:
        scene.stack.counts["SubtasksQueue"] -= 1

    scene.turns.coming = [less, less]
    scene.run.drain()
    assert scene.run.outcome.leftover_messages == {"SubtasksDeadLetterQueue": 1}
    assert scene.turns.clock.monotonic() == 2 * run_module.POLL_SECONDS
    assert len(scene.fleet.progress) == 2  # workers are needed until the end


def test_drain_gives_up_at_last(scene: Scene) -> None:
    scene.stack.counts["SubtasksQueue"] = 3
    scene.run.drain()
    assert scene.run.outcome.leftover_messages == {"SubtasksQueue": 3}
    assert scene.turns.clock.monotonic() == run_module.DRAIN_SECONDS


def test_the_end_saves_the_bucket_when_events_have_stopped(
    scene: Scene, job: Job, home: Home
) -> None:
    scene.stack.store = submitted(job)
    scene.run.end()
    assert scene.log == ["dismiss", "stop", "workers gone"]
    saved = DirectoryStore(home.bucket)
    assert {info.key for info in saved.list("")} == set(keys(scene.stack.store))


def test_a_dead_emulator_leaves_the_old_bucket(scene: Scene, job: Job, home: Home) -> None:
    home.save(planned(job))
    scene.stack.emulator.alive = False
    scene.run.end()
    assert find_head(home.kept, JOB) is not None
    assert scene.log == ["dismiss", "stop", "workers gone"]


def test_workers_are_ended_even_when_nothing_can_be_saved(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise SpotgradError("no space left on device")

    monkeypatch.setattr(Home, "save", full)
    with pytest.raises(SpotgradError, match="no space"):
        scene.run.end()
    assert scene.log == ["dismiss", "stop", "workers gone"]


@pytest.mark.parametrize(
    ("wanted", "then"), [("run", "run"), ("pause", "run"), ("cancel", "cancel")]
)
def test_going_on_undoes_a_pause_and_never_a_cancellation(wanted: str, then: str) -> None:
    wish = go_on(Control.model_validate({"schema": 1, "want": wanted}))
    assert wish.want == then
    assert wish.resume is not None

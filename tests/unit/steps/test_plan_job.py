from collections.abc import Callable

import pytest

from spotgrad.errors import ConditionFailed, NotFound, PlanningInProgress, StoreUnavailable
from spotgrad.planning.offer import Offer
from spotgrad.protocol.head import Head
from spotgrad.protocol.keys import (
    ActiveKey,
    CodeKey,
    HeadKey,
    JobFileKey,
    ManifestKey,
    RefusedKey,
    SpecKey,
)
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.protocol.plan import CodeRef, JobPlan
from spotgrad.protocol.refusal import Refusal
from spotgrad.protocol.tensors import digest
from spotgrad.steps import plan_job as module
from spotgrad.steps.documents import read_plan
from spotgrad.steps.plan_job import Planned, plan_job
from tests.builders import JOB, PLANNING_SECONDS, Bench, job_file, manifest, names
from tests.fakes.clock import START
from tests.fakes.faults import Crashed, Fault
from tests.fakes.store import Write, crash_at

HEAD, SPEC = HeadKey(JOB).render(), SpecKey(JOB).render()
REFUSED, ACTIVE = RefusedKey(JOB).render(), ActiveKey(JOB).render()
JOB_FILE = JobFileKey(JOB).render()


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.upload()
    return made


def refusal(bench: Bench) -> Refusal:
    return Refusal.from_json(bench.store.get(REFUSED).body)


def before_the_write_of(bench: Bench, key: str, action: Callable[[], object]) -> None:
    def hook(write: Write) -> None:
        if (write.key, write.moment) == (key, "before"):
            bench.store.on_write = None
            action()

    bench.store.on_write = hook


# --- a good job file ----------------------------------------------------------------------------


def test_a_job_file_becomes_a_spec_a_head_and_a_message(bench: Bench) -> None:
    written: list[str] = []
    bench.store.on_write = lambda write: (
        written.append(write.key) if write.moment == "after" else None
    )
    assert bench.plan() == Planned("planned")
    head = bench.head
    plan = read_plan(bench.store, JOB)
    assert (plan.run, plan.job_file_sha256) == (head.run, digest(job_file()))
    assert (plan.manifest, plan.code, plan.spec.epochs) == (manifest(), None, 2)
    assert (head.state, head.version, head.epochs[0].epoch) == ("PLANNING", None, 0)
    (message,) = bench.drain()
    assert (message.job, message.run, message.epoch) == (JOB, head.run, 0)
    assert (message.subtask, message.model) == ("initialize", None)
    first, second = [key for key in written if "/ledger/" in key]
    assert written == [SPEC, ACTIVE, first, HEAD, second, HEAD]
    assert first.startswith(f"state/{JOB}/ledger/00000000-")
    assert (head.revision, head.outbox, head.ledger) == (1, (), second)
    assert bench.entry.previous == first
    entry = LedgerEntry.from_json(bench.store.get(first).body)
    assert (entry.previous, entry.revision, names(entry.issued)) == (
        None,
        0,
        [(0, "initialize")],
    )


def test_the_same_content_again_changes_nothing(bench: Bench) -> None:
    bench.plan()
    before = bench.store.snapshot()
    bench.store.put(JOB_FILE, job_file())
    assert bench.plan() == Planned("already planned")
    assert bench.store.snapshot() == before
    assert len(bench.drain()) == 1


def test_the_same_content_is_no_op_even_when_its_data_has_gone_since(bench: Bench) -> None:
    bench.plan()
    bench.store.delete(ManifestKey("digits").render())
    assert bench.plan() == Planned("already planned")
    assert REFUSED not in bench.store.snapshot()


def test_an_outbox_left_by_a_planner_that_died_is_sent(bench: Bench) -> None:
    bench.queue.faults.order(Fault.UNAVAILABLE, operation="send")
    with pytest.raises(StoreUnavailable):
        bench.plan()
    assert names(bench.head.outbox) == [(0, "initialize")]
    assert bench.plan() == Planned("already planned")
    assert (names(bench.drain()), bench.head.outbox) == ([(0, "initialize")], ())


def test_there_must_be_a_job_file() -> None:
    with pytest.raises(NotFound, match=r"job\.yaml"):
        Bench().plan()


# --- code bundles -------------------------------------------------------------------------------


def put_code(bench: Bench, content: bytes) -> CodeRef:
    key = CodeKey(JOB, digest(content)).render()
    bench.store.put(key, content)
    return CodeRef(key=key, sha256=digest(content), size_bytes=len(content))


def test_the_newest_code_bundle_is_the_job_s(bench: Bench) -> None:
    contents = [b"one", b"two", b"three"]
    for content in contents:
        newest = put_code(bench, content)
        bench.clock.advance(1)
    bench.plan()
    assert read_plan(bench.store, JOB).code == newest


def test_other_code_under_the_same_job_file_is_another_job(bench: Bench) -> None:
    put_code(bench, b"one")
    bench.plan()
    bench.clock.advance(1)
    put_code(bench, b"two")
    assert bench.plan().outcome == "refused"
    bench.clock.advance(1)
    put_code(bench, b"one")
    assert bench.plan() == Planned("already planned")


def test_a_stray_or_empty_bundle_is_refused(bench: Bench) -> None:
    stray = f"jobs/{JOB}/code-final.zip"
    bench.store.put(stray, b"zip")
    assert stray in (bench.plan().reason or "")
    bench.clock.advance(1)
    key = put_code_of_nothing(bench)
    assert bench.plan().reason == (
        f"job {JOB}: {key} is empty; let `spotgrad submit` upload the code"
    )
    assert HEAD not in bench.store.snapshot()


def test_a_bundle_too_large_for_a_worker_is_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 4)
    ref = put_code(bench, b"large")
    assert bench.plan().reason == (
        f"job {JOB}: {ref.key}: 5 bytes, at most 4 are allowed; leave data out of the code"
    )
    assert HEAD not in bench.store.snapshot()
    bench.clock.advance(1)
    put_code(bench, b"fits")
    assert bench.plan() == Planned("planned")


def put_code_of_nothing(bench: Bench) -> str:
    key = CodeKey(JOB, digest(b"")).render()
    bench.store.put(key, b"")
    return key


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"name: [", "job file: "),
        (b"!!python/object:os.system {}", "job file: "),
        (job_file(alpha=0.5), "job file: alpha: unknown key"),
        (job_file(merge={"rule": "vc-asgd", "alpha": 1.5}), "job file: merge.alpha"),
        (job_file(name="other"), "job file: name: 'other' was uploaded as 'digits'"),
        (job_file(dataset="cats"), "job file: dataset: there is no data set 'cats'; push it with"),
        (
            job_file(evaluate={"split": "test"}),
            "job file: dataset 'digits' has no split 'test' (evaluate.split); it has: train, val",
        ),
    ],
)
def test_a_bad_job_file_leaves_a_refusal_and_no_head(
    bench: Bench, body: bytes, reason: str
) -> None:
    bench.store.put(JOB_FILE, body)
    before = bench.store.snapshot()
    planned = bench.plan()
    assert planned.outcome == "refused"
    assert (planned.reason or "").startswith(reason)
    assert refusal(bench) == Refusal(
        job=JOB, job_file_sha256=digest(body), reason=planned.reason or "", at=START
    )
    after = bench.store.snapshot()
    del after[REFUSED]
    assert after == before
    assert bench.drain() == []


def test_a_job_that_no_fleet_serves_is_refused(bench: Bench) -> None:
    bench.store.put(JOB_FILE, job_file(workers={"spot": False}))
    spot, on_demand = (Offer("some", spot=one, gpus=0) for one in (True, False))

    def plan(*offers: Offer) -> Planned:
        return plan_job(bench.world, JOB, planning_seconds=PLANNING_SECONDS, offers=offers)

    planned = plan(spot)
    assert planned.outcome == "refused"
    assert (planned.reason or "").startswith("job file: workers.spot: false, but this fleet has")
    assert refusal(bench).reason == planned.reason
    assert HEAD not in bench.store.snapshot()
    assert plan(spot, on_demand) == Planned("planned")


def test_an_event_that_comes_twice_leaves_the_refusal_as_it_was_told(bench: Bench) -> None:
    bench.store.put(JOB_FILE, b"name: [")
    bench.plan()
    first = refusal(bench)
    bench.store.put(REFUSED, first.model_copy(update={"told": True}).to_json())
    bench.clock.advance(60)
    assert bench.plan() == Planned("refused", first.reason)
    assert refusal(bench).told
    bench.clock.advance(60)
    bench.store.put(JOB_FILE, b"name: [")  # by somebody who waits for an answer
    bench.plan()
    assert (refusal(bench).told, refusal(bench).at) == (False, bench.clock.now())


def test_a_damaged_refusal_is_written_anew(bench: Bench) -> None:
    bench.store.put(JOB_FILE, b"name: [")
    bench.store.put(REFUSED, b"damaged")
    bench.plan()
    assert not refusal(bench).told


def test_another_reason_is_another_refusal(bench: Bench) -> None:
    bench.store.put(JOB_FILE, job_file(workers={"gpu": 3}))
    for gpus in (1, 2):
        plan_job(
            bench.world,
            JOB,
            planning_seconds=PLANNING_SECONDS,
            offers=[Offer("some", spot=True, gpus=gpus)],
        )
        assert f"has {gpus};" in refusal(bench).reason


def test_the_next_upload_after_a_refusal_plans_again(bench: Bench) -> None:
    bench.store.put(JOB_FILE, b"name: [")
    bench.plan()
    bench.store.put(JOB_FILE, job_file())
    assert bench.plan() == Planned("planned")
    assert bench.head.state == "PLANNING"


def test_training_data_is_needed_and_evaluation_data_only_to_evaluate() -> None:
    bench = Bench()
    bench.upload(0, evaluation_shards=1)
    assert "has no split 'train' (training)" in (bench.plan().reason or "")
    bench.upload(2, evaluation_shards=0, evaluate=None)
    assert bench.plan() == Planned("planned")


def test_a_damaged_manifest_is_refused_with_the_remedy(bench: Bench) -> None:
    bench.store.put(ManifestKey("digits").render(), b"{}")
    reason = bench.plan().reason or ""
    assert reason.startswith("job file: dataset: data set 'digits' is damaged (data set manifest: ")
    assert "push it again with `spotgrad dataset push digits SOURCE`" in reason


def test_a_name_that_is_taken_is_refused_and_the_job_goes_on(bench: Bench) -> None:
    bench.plan()
    before = bench.head
    bench.store.put(JOB_FILE, job_file(epochs=3))
    planned = bench.plan()
    assert planned == Planned(
        "refused",
        "job digits: the name is taken by another job file or other code; choose a new name",
    )
    assert refusal(bench).job_file_sha256 == digest(job_file(epochs=3))
    assert bench.head == before
    assert read_plan(bench.store, JOB).spec.epochs == 2


# --- crashes and other planners -----------------------------------------------------------------


@pytest.mark.parametrize("write", range(1, 7))
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_planner_that_dies_at_any_write_is_followed_by_one_that_finishes(
    write: int, moment: str
) -> None:
    bench = Bench()
    bench.upload()
    hook = crash_at(2 + write, moment)  # type: ignore[arg-type]  # parametrize knows no literals
    bench.store.on_write = hook
    with pytest.raises(Crashed):
        bench.plan()
    bench.store.on_write = None
    bench.plan()
    head = bench.head
    assert (head.state, head.outbox, head.epochs[0].issued.count) == ("PLANNING", (), 1)
    assert head.run == read_plan(bench.store, JOB).run
    assert set(names(bench.drain())) == {(0, "initialize")}
    assert ACTIVE in bench.store.snapshot()
    assert bench.store.calls["delete"] == 0


@pytest.mark.parametrize("key", [ACTIVE, HEAD])
def test_two_planners_of_one_upload_make_one_job(bench: Bench, key: str) -> None:
    before_the_write_of(bench, key, bench.plan)
    assert bench.plan() == Planned("planned")
    assert bench.head.run == read_plan(bench.store, JOB).run
    assert set(names(bench.drain())) == {(0, "initialize")}
    assert bench.head.revision == 1


def test_two_planners_that_both_saw_no_spec_do_not_overwrite_each_other(bench: Bench) -> None:
    before_the_write_of(bench, SPEC, bench.plan)
    with pytest.raises(ConditionFailed):
        bench.plan()
    assert bench.head.run == read_plan(bench.store, JOB).run
    assert bench.plan() == Planned("already planned")


def abandoned_spec(bench: Bench) -> JobPlan:
    """Another upload of the name was being planned when its planner died."""
    bench.store.put(JOB_FILE, job_file(epochs=9))
    before_the_write_of(bench, ACTIVE, crash)
    with pytest.raises(Crashed):
        bench.plan()
    bench.store.put(JOB_FILE, job_file())
    return read_plan(bench.store, JOB)


def crash() -> None:
    raise Crashed("the planner died")


def test_the_young_spec_of_another_upload_may_be_in_its_planner_s_hands(bench: Bench) -> None:
    spec = abandoned_spec(bench)
    bench.clock.advance(2 * PLANNING_SECONDS - 1)
    with pytest.raises(PlanningInProgress, match="job digits: another upload is being planned"):
        bench.plan()
    assert read_plan(bench.store, JOB) == spec
    assert HEAD not in bench.store.snapshot()


def test_the_old_spec_of_another_upload_is_replaced(bench: Bench) -> None:
    abandoned_spec(bench)
    bench.clock.advance(2 * PLANNING_SECONDS)
    assert bench.plan() == Planned("planned")
    plan = read_plan(bench.store, JOB)
    assert (plan.spec.epochs, plan.run) == (2, bench.head.run)


def test_an_old_spec_that_another_planner_replaces_first_is_left_to_it(bench: Bench) -> None:
    abandoned_spec(bench)
    bench.clock.advance(2 * PLANNING_SECONDS)
    before_the_write_of(bench, SPEC, bench.plan)
    with pytest.raises(ConditionFailed):
        bench.plan()
    assert bench.head.run == read_plan(bench.store, JOB).run


def test_a_spec_beside_another_key_of_its_name_is_found_all_the_same(bench: Bench) -> None:
    bench.store.put(f"{SPEC}.bak", b"")
    assert bench.plan() == Planned("planned")


def test_a_head_that_cannot_be_created_yet_is_tried_again_later(bench: Bench) -> None:
    bench.store.faults.order(Fault.CONFLICT, key=HEAD)
    with pytest.raises(PlanningInProgress, match="another planner is creating its head"):
        bench.plan()
    assert bench.plan() == Planned("planned")


def test_the_head_of_another_run_is_not_taken_for_ours(bench: Bench) -> None:
    other = Bench()
    other.upload()
    other.plan()
    head = other.head.model_copy(update={"run": "ee" * 8})
    before_the_write_of(bench, HEAD, lambda: bench.tamper(head))
    with pytest.raises(PlanningInProgress):
        bench.plan()
    assert Head.from_json(bench.store.get(HEAD).body) == head
    assert bench.drain() == []


def test_a_longer_planning_time_makes_a_spec_young_again(bench: Bench) -> None:
    abandoned_spec(bench)
    bench.clock.advance(2 * PLANNING_SECONDS)
    with pytest.raises(PlanningInProgress):
        plan_job(bench.world, JOB, planning_seconds=PLANNING_SECONDS + 1)

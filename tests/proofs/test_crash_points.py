"""Cut off after any write or send, with any answer lost: run again, it comes to the same.

Each step is damaged at each of its effects in turn; the same events come again, or never do; one
reconcile follows. The undisturbed run, with a reconcile after it too, says what must come out.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from tests.builders import LEASE_SECONDS
from tests.proofs.cases import AGGREGATE, PLAN, RECONCILE, Case, Step, ended, orphans
from tests.proofs.outcome import Outcome, outcome, refusal
from tests.proofs.sabotage import Damage, SabotagedBench, cuts, troubles

Ending = Callable[[SabotagedBench, Step], None]


def cases(*these: Case) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", these, ids=lambda case: case.__name__)


def tick(bench: SabotagedBench, step: Step) -> None:
    """A little over a lease later, reconcile runs."""
    del step
    bench.clock.advance(LEASE_SECONDS + 1)
    bench.reconcile()


def again(bench: SabotagedBench, step: Step) -> None:
    """The events that were not acknowledged are delivered once more, then reconcile runs."""
    step()
    tick(bench, step)


def two_ticks(bench: SabotagedBench, step: Step) -> None:
    """The events are gone for good: reconcile alone has to find what they announced."""
    tick(bench, step)
    tick(bench, step)


def undisturbed(case: Case, ending: Ending) -> tuple[SabotagedBench, list[str]]:
    """Run the case; return the bench after it, and the effects that its step had."""
    bench = SabotagedBench()
    step = case(bench)
    bench.disturbed(step, None)
    effects = list(bench.saboteur.effects)
    ending(bench, step)
    return bench, effects


def disturbed(
    case: Case, ending: Ending, damages: Iterator[Damage]
) -> Iterator[tuple[Damage, SabotagedBench]]:
    for damage in damages:
        bench = SabotagedBench()
        step = case(bench)
        bench.disturbed(step, damage)
        ending(bench, step)
        yield damage, bench


def everything(effects: Sequence[str]) -> Iterator[Damage]:
    yield from cuts(effects)
    yield from troubles(effects)


def whole(found: Outcome) -> Outcome:
    """Check what holds for every job that nothing is missing from."""
    assert found.findings == ()
    assert found.receivable == found.open
    return found


def unordered(found: Outcome) -> Outcome:
    """Leave out what follows from the order of merging."""
    merged = tuple(sorted((key, 0.0) for key, _ in found.merged))
    return replace(found, merged=merged, versions=(), set_aside=tuple(sorted(found.set_aside)))


@cases(*PLAN, *AGGREGATE, *RECONCILE)
def test_run_again_it_comes_to_the_same(case: Case) -> None:
    bench, effects = undisturbed(case, tick)
    wanted = whole(outcome(bench))
    for damage, damaged in disturbed(case, again, everything(effects)):
        assert outcome(damaged) == wanted, damage


@cases(*AGGREGATE)
def test_reconcile_alone_finds_what_lost_events_announced(case: Case) -> None:
    bench, effects = undisturbed(case, two_ticks)
    wanted = unordered(whole(outcome(bench)))
    for damage, damaged in disturbed(case, two_ticks, cuts(effects)):
        assert unordered(outcome(damaged)) == wanted, damage


@cases(*PLAN, *AGGREGATE, *RECONCILE)
def test_an_event_that_comes_twice_changes_nothing(case: Case) -> None:
    once, _ = undisturbed(case, tick)
    twice, _ = undisturbed(case, again)
    assert outcome(twice) == outcome(once)


def test_a_refused_job_file_stays_refused() -> None:
    def refused(bench: SabotagedBench) -> Step:
        bench.upload(epochs=0)
        return bench.plan

    bench, effects = undisturbed(refused, tick)
    wanted = refusal(bench)
    assert wanted is not None
    assert "epochs" in wanted
    for damage, damaged in disturbed(refused, again, everything(effects)):
        assert refusal(damaged) == wanted, damage


def test_a_sweep_that_was_cut_off_is_finished_by_the_next() -> None:
    bench, effects = undisturbed(ended, tick)
    assert not set(orphans(bench)) & set(bench.store.snapshot())
    for damage, damaged in disturbed(ended, again, everything(effects)):
        assert damaged.store.snapshot().keys() == bench.store.snapshot().keys(), damage


@cases(*(case for case in AGGREGATE if case.__name__ in ("epoch_close", "refused_result")))
def test_every_cut_but_the_last_would_be_seen(case: Case) -> None:
    """Without the rerun, and before reconcile, something is missing: the check can fail."""

    def nothing(bench: SabotagedBench, step: Step) -> None:
        del bench, step

    bench, effects = undisturbed(case, nothing)
    wanted = whole(outcome(bench))
    sent = next(number for number, effect in enumerate(effects, 1) if effect.startswith("send"))
    for damage, damaged in disturbed(case, nothing, cuts(effects)):
        unsent = damage.number < sent or (damage.number, damage.moment) == (sent, "halfway")
        assert (outcome(damaged) != wanted) == unsent, damage

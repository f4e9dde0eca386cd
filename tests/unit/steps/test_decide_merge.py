"""What a rule is told, and what the ledger keeps of its answer."""

from typing import Any

import pytest

from spotgrad.protocol.bitmap import Bitmap
from spotgrad.protocol.head import Head
from spotgrad.protocol.recipe import Recipe
from spotgrad.steps.decide_merge import decide_merge, is_last
from tests.builders import Bench, begun, job_plan, planned_head, train


def merged_up_to(head: Head, epoch: int, merged: int) -> Head:
    (progress,) = head.epochs
    update = {"epoch": epoch, "merged": Bitmap.of(range(merged))}
    return head.model_copy(update={"epochs": (progress.model_copy(update=update),)})


@pytest.mark.parametrize(("epoch", "merged", "last"), [(1, 4, False), (2, 3, False), (2, 4, True)])
def test_the_last_result_is_that_of_the_last_epoch(epoch: int, merged: int, *, last: bool) -> None:
    plan = job_plan()
    assert is_last(merged_up_to(begun(plan), epoch, merged), plan) is last


def test_a_redriven_subtask_alone_may_be_the_last() -> None:
    plan = job_plan()
    (progress,) = begun(plan).epochs
    head = begun(plan).model_copy(update={"epochs": (), "late": (progress,)})
    assert not is_last(head, plan)
    whole = progress.model_copy(update={"merged": Bitmap.of(range(4))})
    assert is_last(head.model_copy(update={"late": (whole,)}), plan)


def test_nothing_to_merge_is_an_empty_recipe() -> None:
    plan = job_plan()
    assert decide_merge(planned_head(plan), plan, []) == Recipe()


def entry_of(merge: dict[str, Any]) -> Any:
    bench = Bench()
    bench.start(merge=merge)
    bench.aggregate(bench.trained(1, 0), bench.trained(1, 1))
    return bench.entry, bench


def test_coefficients_alone_are_kept_where_they_say_it_all() -> None:
    entry, _ = entry_of({"rule": "easgd"})
    assert entry.recipe is None
    assert entry.followed.weights("server") == {
        "server": entry.server_coefficient,
        "client-0": entry.merged[0].coefficient,
        "client-1": entry.merged[1].coefficient,
    }


def test_the_whole_recipe_is_kept_where_they_do_not() -> None:
    entry, bench = entry_of({"rule": "fedbuff", "size": 5})
    assert entry.followed is entry.recipe is not None
    assert (entry.server, set(entry.objects)) == (None, {"buffer"})
    assert (entry.server_coefficient, entry.merged[0].coefficient) == (0.0, 0.0)
    assert entry.made == f"revision {entry.revision}"
    head = bench.head
    assert (head.version, head.results_merged, head.tally["window"]) == (0, 2, 2.0)
    assert head.objects == {"server": entry.start} | entry.objects


def test_versions_behind_are_counted_too() -> None:
    bench = Bench()
    bench.start(merge={"rule": "fedbuff", "size": 1})
    late = bench.trained(1, 3)
    bench.aggregate(bench.trained(1, 0), bench.trained(1, 1))  # two results, one version
    bench.aggregate(late)
    assert bench.entry.merged[0].staleness == 2
    assert bench.entry.recipe is not None
    assert bench.entry.recipe.weights("server")["client-0"] == 2**-0.5
    assert train(1, 3).subtask == bench.entry.merged[0].subtask

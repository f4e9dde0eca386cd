"""What a rule is told, and what the ledger keeps of its answer."""

from typing import Any

from spotgrad.protocol.recipe import Recipe
from spotgrad.steps.decide_merge import decide_merge
from tests.builders import Bench, job_plan, planned_head, train


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

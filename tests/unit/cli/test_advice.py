import pytest

from spotgrad.cli.advice import advice
from spotgrad.protocol.job_file import parse_job_file
from tests.builders import job_file


@pytest.mark.parametrize("alpha", ["var", 0.7, 0.989])
def test_an_alpha_that_moves_is_fine(alpha: object) -> None:
    assert not list(advice(parse_job_file(job_file(merge={"alpha": alpha}))))


def test_an_alpha_that_hardly_moves_is_named() -> None:
    (warning,) = advice(parse_job_file(job_file(merge={"alpha": 0.99})))
    assert warning.startswith("merge.alpha: 0.99 keeps 99.0% of the server copy")


@pytest.mark.parametrize(
    ("most", "workers", "shards", "warned"),
    [(16, 8, 39, True), (16, 8, 40, False), (4, 8, 20, False), (4, 8, 19, True), (16, 1, 5, False)],
)
def test_few_shards_per_subtask_in_flight_are_named(
    most: int, workers: int, shards: int, *, warned: bool
) -> None:
    body = job_file(schedule={"max_in_flight": most}, workers={"max": workers})
    warnings = list(advice(parse_job_file(body), shards))
    assert bool(warnings) == warned
    assert all(f"{shards} training shards for up to" in warning for warning in warnings)


@pytest.mark.parametrize(
    "merge",
    [
        {"rule": "fedavg"},
        {
            "rule": "dedloc",
            "target_batch_size": 64,
            "optimizer": {"name": "lamb"},
        },
    ],
)
def test_where_nothing_is_stale_few_shards_are_fine(merge: dict[str, object]) -> None:
    assert not list(advice(parse_job_file(job_file(merge=merge)), 1))


def test_without_a_data_set_its_shards_are_no_matter() -> None:
    assert not list(advice(parse_job_file(job_file()), None))

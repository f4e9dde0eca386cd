"""A simulated run trains and merges as the product does; the rest is ``checks.same``'s to say."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.reproduce.fleet import Fleet
from benchmarks.reproduce.poison import Poisoned
from benchmarks.reproduce.run import Case, measure, seconds_to
from benchmarks.reproduce.simulator import Plan, simulate
from benchmarks.reproduce.study import Study, small
from benchmarks.reproduce.training import Images, Pipeline, Result
from spotgrad.protocol.recipe import EMA, SERVER


@pytest.fixture(scope="module")
def study() -> Study:
    return small().shrunk(shards=4, hidden=8, epochs=2)


@pytest.fixture(scope="module")
def images(study: Study) -> Images:
    return Images.of(study)


def pipeline(study: Study, images: Images, **merge: Any) -> Pipeline:
    return Pipeline(study.spec(merge, in_flight=2), images)


def test_the_shards_are_the_data_set_once(images: Images) -> None:
    whole = images.whole

    assert [len(each[0]) for each in images.shards] == [360, 359, 359, 359]
    assert len(whole.shards[0][0]) == 1437
    assert len(images.test[0]) == 360


def test_one_result_is_merged_as_the_paper_says(study: Study, images: Images) -> None:
    made = pipeline(study, images, alpha=0.75)
    first = made.server.version

    result = made.train(1, 0, made.begin(1))
    made.merge(1, result, ends_epoch=False, ends_job=False)

    for name, tensor in made.server.objects[SERVER].items():
        if tensor.dtype == np.float32:
            expected = (
                np.float32(0.75) * first.tensors[name] + np.float32(0.25) * result.tensors[name]
            )
            np.testing.assert_allclose(tensor, expected, rtol=1e-5, atol=1e-7)
    assert (made.server.version.number, made.server.version.results) == (1, 1)


def test_the_same_start_gives_the_same_result_whatever_was_trained_before(
    study: Study, images: Images
) -> None:
    made = pipeline(study, images, alpha="var")
    start = made.begin(1)

    once, _, again = made.train(1, 0, start), made.train(1, 1, start), made.train(1, 0, start)

    assert all(
        once.tensors[name].tobytes() == again.tensors[name].tobytes() for name in once.tensors
    )


def test_a_result_with_a_nan_is_refused(study: Study, images: Images) -> None:
    made = pipeline(study, images, alpha="var")
    good = made.train(1, 0, made.begin(1))
    name = "layers.1.weight"
    bad = replace(good, tensors={**good.tensors, name: np.full_like(good.tensors[name], np.nan)})

    assert made.admit(good)
    assert not made.admit(bad)


def test_a_round_is_the_mean_of_an_epoch_and_all_begin_from_one_version(
    study: Study, images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = pipeline(study, images, rule="fedavg")
    results: list[Result] = []
    train = made.clients.train

    def noted(epoch: int, shard: int, start: Any) -> Result:
        results.append(train(epoch, shard, start))
        return results[-1]

    monkeypatch.setattr(made.clients, "train", noted)
    simulate(Plan(1, study.shards), Fleet(clients=2), made)

    samples = [one.samples for one in results]
    weight = sum(
        one.tensors["layers.1.weight"] * n for one, n in zip(results, samples, strict=True)
    )
    mean = weight / sum(samples)
    assert {one.start.number for one in results} == {0}
    np.testing.assert_allclose(made.server.objects[SERVER]["layers.1.weight"], mean, atol=1e-6)


def test_a_measured_run_has_an_accuracy_per_epoch_and_a_scatter_inside(
    study: Study, images: Images
) -> None:
    spec = study.spec({"alpha": "var", "ema": 0.5}, in_flight=2)

    kept = measure(Case(spec, images, Fleet(clients=2), glance=50))

    assert len(kept["accuracy"]) == len(kept["epoch_ends"]) == len(kept["within_epoch"]) == 2
    assert len(kept["last_epoch"]) == study.shards
    assert kept["accuracy"][-1] > 0.5
    assert seconds_to(0.5, kept, float) in (1.0, 2.0)
    assert seconds_to(1.1, kept, float) is None


def test_what_is_measured_is_the_copy_that_is_published(study: Study, images: Images) -> None:
    made = pipeline(study, images, alpha="var", ema=0.9)

    simulate(Plan(1, study.shards), Fleet(clients=2), made)

    assert made.server.published is made.server.objects[EMA]


def test_a_reversed_result_goes_three_times_as_far_backwards(study: Study, images: Images) -> None:
    spec = study.spec({"alpha": "var"}, in_flight=2)
    honest, bad = Pipeline(spec, images), Poisoned(spec, images, share=1.0)
    start = honest.begin(1)

    good, sent = honest.train(1, 0, start).tensors, bad.train(1, 0, start).tensors

    for name, role in bad.clients.roles.items():
        way = good[name] - start.tensors[name]
        expected = start.tensors[name] - 3 * way if role == "parameter" else good[name]
        np.testing.assert_allclose(sent[name], expected, rtol=1e-6)


def test_nothing_is_reversed_where_no_share_is(study: Study, images: Images) -> None:
    spec = study.spec({"alpha": "var"}, in_flight=2)
    honest, clean = Pipeline(spec, images), Poisoned(spec, images, share=0.0)
    start = honest.begin(1)

    good, sent = honest.train(1, 0, start).tensors, clean.train(1, 0, start).tensors

    assert all(sent[name].tobytes() == good[name].tobytes() for name in good)

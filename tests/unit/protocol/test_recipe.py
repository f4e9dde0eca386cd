import pytest

from spotgrad.protocol.ledger import plain_recipe
from spotgrad.protocol.recipe import Blend, Recipe, base, client, waiting

NESTEROV = Recipe(
    outputs={
        "server": Blend(parameters={"server": 1.0, "base-1": -0.5}, buffers={"client-0": 1.0}),
        "momentum": Blend(parameters={"momentum": 0.9}),
        "ema": Blend(parameters={"ema": 0.9, "merged": 0.1}),
    }
)


def test_inputs_are_named_by_their_place_in_the_batch() -> None:
    assert (client(0), base(12)) == ("client-0", "base-12")


def test_the_inputs_are_all_that_stand_outside_the_recipe() -> None:
    assert NESTEROV.inputs == {"server", "base-1", "client-0", "momentum", "ema"}


@pytest.mark.parametrize(("number", "needed"), [(0, False), (1, True), (2, False)])
def test_a_base_version_is_needed_where_it_has_a_weight(number: int, *, needed: bool) -> None:
    assert NESTEROV.needs_base(number) is needed


def test_a_function_may_use_every_base_version() -> None:
    assert Recipe(outputs={"server": Blend()}, function="dc-asgd", from_bases=True).needs_base(5)


def test_weights_of_what_is_not_linear_or_not_there_are_none() -> None:
    assert Recipe(outputs={"server": Blend()}).weights("server") == {}
    assert Recipe().weights("server") == {}
    assert plain_recipe(0.5, [0.5]).weights("server") == {"server": 0.5, "client-0": 0.5}


def test_the_order_of_weights_survives_json() -> None:
    weights = {"server": 0.5, "client-10": 0.25, "client-2": 0.25, "base-0": -1.0}
    recipe = Recipe(outputs={"server": Blend(parameters=weights)}, numbers={"eta": (0.1,)})
    again = Recipe.model_validate_json(recipe.model_dump_json())
    assert again == recipe
    assert list(again.weights("server")) == list(weights)


def test_what_waits_has_a_number() -> None:
    assert [waiting(0), waiting(17)] == ["waiting_0000", "waiting_0017"]
    assert not Recipe().needs_object(waiting(3))
    assert Recipe(function="median").needs_object(waiting(3))

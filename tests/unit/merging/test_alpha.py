"""alpha weighs the server copy; ``var`` grows with the epoch."""

import pytest

from spotgrad.merging.alpha import alpha_of


@pytest.mark.parametrize(("epoch", "alpha"), [(1, 1 / 2), (2, 2 / 3), (9, 0.9), (99, 0.99)])
def test_var_is_e_over_e_plus_one(epoch: int, alpha: float) -> None:
    assert alpha_of("var", epoch) == alpha


def test_a_constant_stays_what_it_is_in_every_epoch() -> None:
    assert [alpha_of(0.7, epoch) for epoch in (1, 2, 1000)] == [0.7, 0.7, 0.7]


@pytest.mark.parametrize("epoch", [0, -1])
def test_epoch_zero_has_no_alpha(epoch: int) -> None:
    with pytest.raises(ValueError, match=f"epoch {epoch} has no alpha: training epochs count from"):
        alpha_of("var", epoch)

"""DeDLOC: gradients add up to a large batch; then one optimizer step (Diskin et al., 2021).

    B <- B + (n / N) (g - B),    N <- N + n          for every contribution of n samples
    W <- step(W, B, t);  B <- 0;  N <- 0;  t <- t + 1      once N has reached the target batch

B is the mean gradient over all N samples, whoever computed them, so that one step is the step of
ordinary training with that batch: the hyper-parameters do not depend on how many workers there are.
The object ``round`` is B, with the mean of the contributions' float buffers beside it; the
optimizer's state are objects of their own. What is left when a job ends makes a last, smaller step.
"""

from collections.abc import Sequence

from spotgrad.merging.combination import ZERO, client_of
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.merging.optimizers.gradient import GRADIENT
from spotgrad.merging.optimizers.told import numbers_of, objects_of
from spotgrad.merging.round import Round
from spotgrad.protocol.merge import DeDLOC
from spotgrad.protocol.recipe import MASS, SERVER, WINDOW, Blend, Recipe

STEPS = "steps"
"""In the tally: how many optimizer steps were taken."""


def recipe(merge: DeDLOC, occasion: Occasion, batch: Sequence[Contribution]) -> Recipe:
    """Return the running mean gradient, or the optimizer step where the batch is full."""
    under_way = Round(merge, occasion)
    for j, one in enumerate(batch):
        under_way.add(j, client_of(j), float(one.samples))
    steps = int(occasion.tally.get(STEPS, 0.0))
    if occasion.closes is None:
        return _remembering(under_way.kept(), steps)
    step = steps + 1
    ended = under_way.closed(ZERO)
    states = {name: Blend() for name in objects_of(merge.optimizer)}
    taken = ended.model_copy(
        update={
            "outputs": {SERVER: Blend(buffers=ended.outputs[SERVER].buffers)} | states,
            "function": merge.optimizer.name,
            "numbers": numbers_of(merge.optimizer, step)
            | {GRADIENT + name: (weight,) for name, weight in under_way.mean.weights.items()},
        }
    )
    return _remembering(taken, step)


def _remembering(recipe: Recipe, steps: int) -> Recipe:
    kept = {name: recipe.tally[name] for name in (WINDOW, MASS)}
    return recipe.model_copy(update={"tally": kept | {STEPS: float(steps)}})

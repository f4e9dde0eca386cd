"""What an optimizer's block function is told of its section of the job file, and what it keeps.

Not the gradient: which inputs it is the sum of, only the rule knows (``gradient/<input>``).
"""

from spotgrad.merging.optimizers import moments, sgd
from spotgrad.merging.optimizers.schedule import learning_rate
from spotgrad.protocol.optimizer import AnyStep, LambStep, SgdStep

Told = dict[str, tuple[float, ...]]


def numbers_of(section: AnyStep, t: int) -> Told:
    """Return the numbers of step ``t``, which counts from 1; () says that there is no bound."""
    numbers: Told = {
        "lr": (learning_rate(section.lr, section.schedule, t),),
        "t": (float(t),),
        "max_grad_norm": () if section.max_grad_norm is None else (section.max_grad_norm,),
        "weight_decay": (section.weight_decay,),
        "decay_vectors": (float(section.decay_vectors),),
    }
    if isinstance(section, SgdStep):
        nesterov = (float(section.nesterov),)
        return numbers | {"momentum": (section.momentum,), "nesterov": nesterov}
    numbers |= {"betas": section.betas, "eps": (section.eps,)}
    if isinstance(section, LambStep):
        correction = (float(section.bias_correction),)
        numbers |= {"clamp": (section.clamp,), "bias_correction": correction}
    return numbers


def objects_of(section: AnyStep) -> tuple[str, ...]:
    """Return the objects that are kept from step to step: outputs beside the server copy."""
    if isinstance(section, SgdStep):
        return (sgd.MOMENTUM,) if section.momentum else ()
    return (moments.FIRST, moments.SECOND)

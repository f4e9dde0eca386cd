"""Which fleet serves a job: what it asks for in ``workers``, against what each fleet's workers are.

Not how many workers there are to be (``planning.fleet``). Invariant: whoever is asked twice answers
the same, so a job's workers are counted where they were started.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from spotgrad.protocol.job import Workers

__all__ = ["Offer", "serving", "why_unserved"]


@dataclass(frozen=True)
class Offer:
    """What the workers of one fleet run on."""

    name: str
    """Names the note of its starts (``FleetKey``)."""
    spot: bool
    """Whether the machines under them may be taken away."""
    gpus: int | None
    """Of each worker; None: as many as the job wants, for a machine that stands in for others."""

    def has_gpus_for(self, wanted: Workers) -> bool:
        """Return whether each worker has the GPUs that the job wants for its subtasks."""
        return self.gpus is None or self.gpus >= wanted.gpu

    def serves(self, wanted: Workers) -> bool:
        """Return whether the job's workers may be started here.

        ``spot: true`` allows interruptions and does not ask for them; ``gpu`` is a minimum.
        """
        return self.has_gpus_for(wanted) and (wanted.spot or not self.spot)


def serving(offers: Sequence[Offer], wanted: Workers) -> int | None:
    """Return the index of the first fleet that serves the job, or None: they are in order."""
    return next((index for index, one in enumerate(offers) if one.serves(wanted)), None)


def why_unserved(offers: Sequence[Offer], wanted: Workers) -> str | None:
    """Return one line with a remedy when no fleet serves the job.

    None when one does, and where there is no fleet: people start what workers they like.
    """
    if not offers or serving(offers, wanted) is not None:
        return None
    if not any(one.has_gpus_for(wanted) for one in offers):
        most = max(one.gpus or 0 for one in offers)
        return (
            f"workers.gpu: {wanted.gpu}, but a worker of this fleet has {most}; "
            f"ask for at most {most}, or deploy the fleet with WorkerGpus={wanted.gpu}"
        )
    return (
        "workers.spot: false, but this fleet has Spot instances alone; allow them with "
        "spot: true, or deploy the fleet with Capacity=spot-then-on-demand"
    )

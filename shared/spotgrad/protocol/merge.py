"""The merge section of a job file: one model per rule, each with its own parameters.

Not the arithmetic (``spotgrad.merging``). ``alpha`` always weighs the SERVER copy. What needs more
than the section itself, the subtasks in flight for one, is checked by ``JobSpec``.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from spotgrad.protocol.scalars import Share
from spotgrad.protocol.wire import Part

Alpha = Share


class Rule(Part):
    """What every rule lets one choose."""

    rule: str
    buffers: Literal["blend", "latest", "keep"] = "blend"
    """Float buffers (BatchNorm's statistics): blended as the rule says, the latest result's, or
    those that the model was initialized with."""


class VcAsgd(Rule):
    """VC-ASGD (Atre et al., 2021): ``alpha`` weighs the server copy; ``var`` is e / (e + 1)."""

    rule: Literal["vc-asgd"] = "vc-asgd"
    alpha: Alpha | Literal["var"] = "var"


def _with_rule(section: Any) -> Any:
    """Let ``merge: {alpha: 0.9}`` mean the paper's rule."""
    if isinstance(section, dict) and "rule" not in section:
        return {"rule": "vc-asgd", **section}
    return section


MergeSpec = Annotated[VcAsgd, BeforeValidator(_with_rule)]

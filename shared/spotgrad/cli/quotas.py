"""EC2's vCPU quotas: which one bounds an instance family, on Spot and on demand.

A family that is not in the table is not judged. New accounts have none for GPUs.
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-spot-limits.html
https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

__all__ = ["Quota", "quotas_of"]


@dataclass(frozen=True)
class Quota:
    """A quota by the code that Service Quotas knows it by, and the name that people search for."""

    code: str
    name: str


_SPOT_G: Final = Quota("L-3819A6DF", "All G and VT Spot Instance Requests")
_SPOT_P: Final = Quota("L-7212CCBC", "All P Spot Instance Requests")
_SPOT_STANDARD: Final = Quota("L-34B43A08", "All Standard Spot Instance Requests")
_ON_DEMAND_G: Final = Quota("L-DB2E81BA", "Running On-Demand G and VT instances")
_ON_DEMAND_P: Final = Quota("L-417A185B", "Running On-Demand P instances")
_ON_DEMAND_STANDARD: Final = Quota("L-1216C47A", "Running On-Demand Standard instances")

_STANDARD: Final = "acdhimrtz"
_TABLE: Final = {
    "SPOT": {
        "g": _SPOT_G,
        "vt": _SPOT_G,
        "p": _SPOT_P,
        "optimal": _SPOT_STANDARD,
        **dict.fromkeys(_STANDARD, _SPOT_STANDARD),
    },
    "EC2": {
        "g": _ON_DEMAND_G,
        "vt": _ON_DEMAND_G,
        "p": _ON_DEMAND_P,
        "optimal": _ON_DEMAND_STANDARD,
        **dict.fromkeys(_STANDARD, _ON_DEMAND_STANDARD),
    },
}


def quotas_of(kind: str, instance_types: Iterable[str]) -> list[Quota]:
    """Return the quotas that bound these types or families, each once; kind: SPOT or EC2."""
    letters = [re.match("optimal|[a-z]+", one) for one in instance_types]
    found = [_TABLE.get(kind, {}).get(match[0]) for match in letters if match]
    return list(dict.fromkeys(quota for quota in found if quota is not None))

"""What the rules of ``pipeline_machine`` draw from: jobs, times, fates, turns."""

from typing import Final, Literal

from hypothesis import strategies as st

from tests.builders import LEASE_SECONDS
from tests.proofs.pipeline import FUNCTION_SECONDS
from tests.proofs.stage import Fate

SHORT_WAITS: Final = (1.0, LEASE_SECONDS / 3, FUNCTION_SECONDS)
LONG_WAITS: Final = (LEASE_SECONDS + 1.0, 2 * LEASE_SECONDS + 1.0, 370.0)
OF_FUNCTIONS: Final = (
    Fate.UNAVAILABLE,
    Fate.ANSWER_LOST,
    Fate.CONFLICT,
    Fate.BEATEN_BY_ITSELF,
    Fate.HALFWAY,
)
OF_WORKERS: Final = (
    Fate.UNAVAILABLE,
    Fate.ANSWER_LOST,
    Fate.RAISES,
    Fate.NAN,
    Fate.DAMAGED,
)
OF_POISON: Final = (Fate.NAN, Fate.RAISES)

Kind = Literal["aggregate", "reconcile"]
kinds: st.SearchStrategy[Kind] = st.sampled_from(["aggregate", "aggregate", "reconcile"])
numbers = st.integers(0, 11)
turns = st.lists(st.booleans(), min_size=4, max_size=40)
jobs = st.fixed_dictionaries(
    {
        "epochs": st.integers(2, 3),
        "schedule": st.fixed_dictionaries(
            {
                "issue": st.sampled_from(["barrier", "rolling"]),
                "max_epoch_lead": st.integers(1, 2),
                "max_in_flight": st.sampled_from([2, 3, 16]),
            }
        ),
        "retries": st.fixed_dictionaries(
            {
                "failures": st.integers(0, 2),
                "refusals": st.integers(0, 2),
                "interruptions": st.sampled_from([1, 3, 20]),
                "max_dead": st.sampled_from([0, 2, 100]),
            }
        ),
        "evaluate": st.sampled_from([None, {"every_epochs": 1}, {"every_epochs": 2}]),
    }
)

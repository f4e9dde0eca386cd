import pytest

from spotgrad.cli.quotas import quotas_of


@pytest.mark.parametrize(
    ("kind", "types", "names"),
    [
        ("SPOT", ["g4dn", "g5.xlarge", "vt1"], ["All G and VT Spot Instance Requests"]),
        (
            "SPOT",
            ["p3", "g5"],
            ["All P Spot Instance Requests", "All G and VT Spot Instance Requests"],
        ),
        ("SPOT", ["c5", "m6a", "optimal"], ["All Standard Spot Instance Requests"]),
        ("EC2", ["g6"], ["Running On-Demand G and VT instances"]),
        ("EC2", ["p4d.24xlarge"], ["Running On-Demand P instances"]),
        ("EC2", ["r5", "t3"], ["Running On-Demand Standard instances"]),
        ("SPOT", ["trn1", "inf2", "dl1", "x1", ""], []),
        ("FARGATE", ["g5"], []),
    ],
)
def test_families_have_the_quota_of_their_letters(
    kind: str, types: list[str], names: list[str]
) -> None:
    assert [quota.name for quota in quotas_of(kind, types)] == names

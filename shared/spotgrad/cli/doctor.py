"""``doctor``: is this deployment fit to train? One line per check, and a remedy where one failed.

What a check rests on is checked before it; where that failed, it is not looked at. Invariant: every
check is named in the answer, whatever happens.
"""

import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from spotgrad.aws.facts import Account
from spotgrad.cli.checks import Site, Trouble
from spotgrad.cli.output import Output
from spotgrad.errors import Retry, SpotgradError

__all__ = ["examine"]

LOG_IN: Final = "log in (aws sso login, aws configure), or set AWS_PROFILE"
LOOK: Final = "read the message; it says which permission or setting is missing"
AGAIN: Final = "try again; if that does not help, look at the network, AWS_REGION, AWS_ENDPOINT_URL"
Verdict = Literal["ok", "failed", "skipped"]


@dataclass(frozen=True)
class Finding:
    """One row of ``doctor --json``."""

    check: str
    verdict: Verdict
    detail: str
    remedy: str | None = None


@dataclass(frozen=True)
class _Check:
    name: str
    look: Callable[[Site], str]
    remedy: str = LOOK
    needs: str | None = "stack"


_CHECKS: Final = (
    _Check("credentials", Site.check_credentials, LOG_IN, needs=None),
    _Check("region", Site.check_region, "set AWS_REGION", needs=None),
    _Check(
        "stack",
        Site.check_stack,
        "spotgrad deploy, or name another one with --stack",
        needs="credentials",
    ),
    _Check("versions", Site.check_versions),
    _Check("bucket", Site.check_bucket),
    _Check("queues", Site.check_queues),
    _Check("notifications", Site.check_notifications),
    _Check("functions", Site.check_functions),
    _Check("compute environments", Site.check_fleet),
    _Check("worker image", Site.check_image, needs="compute environments"),
    _Check(
        "vCPU quota",
        Site.check_quota,
        "look in the Service Quotas console, or allow servicequotas:GetServiceQuota",
        needs="compute environments",
    ),
)


def examine(account: Account, stack: str, installed: str, output: Output) -> bool:
    """Check a deployment and print what was found; return whether all is well."""
    site, findings = Site(account, stack, installed), dict[str, Finding]()
    for check in _CHECKS:
        finding = _finding(check, site, findings)
        findings[check.name] = finding
        _say(finding, output)
    good = all(one.verdict == "ok" for one in findings.values())
    output.document(
        {
            "ok": good,
            "stack": stack,
            "spotgrad": installed,
            "python": platform.python_version(),
            "checks": list(findings.values()),
        }
    )
    return good


def _finding(check: _Check, site: Site, before: dict[str, Finding]) -> Finding:
    if check.needs is not None and before[check.needs].verdict != "ok":
        return Finding(check.name, "skipped", f"not looked at: {check.needs}")
    try:
        return Finding(check.name, "ok", check.look(site))
    except Trouble as trouble:
        return Finding(check.name, "failed", _line(trouble), trouble.remedy)
    except Retry as error:  # nobody answered, so no right or setting of the check's own is at fault
        return Finding(check.name, "failed", _line(error), AGAIN)
    except SpotgradError as error:
        return Finding(check.name, "failed", _line(error), check.remedy)


def _say(finding: Finding, output: Output) -> None:
    style = {"ok": "green", "failed": "red", "skipped": "dim"}[finding.verdict]
    output.say(f"{finding.verdict:<8} {finding.check:<21} {finding.detail}", style)
    if finding.remedy is not None:
        output.say(f"{'':<30} -> {finding.remedy}")


def _line(error: Exception) -> str:
    return " ".join(str(error).split())

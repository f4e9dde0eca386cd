"""``audit`` and ``replay``: the ledger checked, and a version rebuilt from it bit for bit."""

from pathlib import Path

from spotgrad.cli.files import write_atomically
from spotgrad.cli.output import Output, size_text
from spotgrad.ports import ObjectReader
from spotgrad.steps.audit import audit
from spotgrad.steps.replay import replay

__all__ = ["prove", "rebuild"]


def prove(store: ObjectReader, job: str, output: Output) -> bool:
    """Audit a job and print what was found; return whether it is clean.

    Raises:
        NotFound: there is no such job.
    """
    report = audit(store, job)
    output.document(report)
    for finding in report.findings:
        output.say(finding, "red")
    found = len(report.findings)
    output.say(
        f"{job}: {report.revisions} commits, {report.versions} versions "
        f"({report.versions_rebuilt} rebuilt bit for bit, {report.versions_without_inputs} without "
        f"their inputs), {report.results_merged} results merged: "
        + (f"{found} finding{'s' * (found > 1)}" if found else "clean"),
        "red" if found else "green",
    )
    return not found


def rebuild(store: ObjectReader, job: str, version: int, path: Path | None, output: Output) -> bool:
    """Rebuild a version, write it if ``path`` is given; return whether it is the committed one.

    Raises:
        NotFound: no such job or version, or its inputs have expired.
        Malformed: an input is damaged; nothing is written.
    """
    rebuilt = replay(store, job, version)
    if path is not None:
        write_atomically(path, rebuilt.body)
    output.document(
        {
            "job": job,
            "version": version,
            "same": rebuilt.same,
            "sha256": rebuilt.sha256,
            "committed_sha256": rebuilt.committed_sha256,
            "from_version": rebuilt.from_version,
            "results": rebuilt.results,
            "output": path,
        }
    )
    verdict = "is the committed one, bit for bit" if rebuilt.same else "DIFFERS from the committed"
    output.say(
        f"version {version} of {job}, rebuilt from version {rebuilt.from_version} with "
        f"{rebuilt.results} results: {verdict}",
        "green" if rebuilt.same else "red",
    )
    if path is not None:
        output.say(f"{size_text(len(rebuilt.body))} in {path}")
    return rebuilt.same

import json

import pytest

from spotgrad.cli.main import USAGE, main


@pytest.mark.parametrize("faults", ["kil=0.1", "kill=2", "reorder=1", ""])
def test_a_mistake_in_chaos_is_one_line_and_nothing_begins(
    capsys: pytest.CaptureFixture[str], faults: str
) -> None:
    code = main(["local", "run", "no-such-job.yaml", "--chaos", faults, "--json"])
    said = capsys.readouterr()
    assert code == USAGE
    assert said.err.startswith("spotgrad: --chaos: ")
    assert said.err.count("\n") == 1
    assert json.loads(said.out)["error"].startswith("--chaos: ")

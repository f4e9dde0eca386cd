import pytest

from benchmarks.reproduce.cost import cost
from benchmarks.reproduce.preemption import exact, paper, preemption


@pytest.mark.parametrize(("loss", "by_paper", "by_us"), [(0.0, 480, 480), (0.2, 680, 730)])
def test_the_formulas_give_the_papers_example(loss: float, by_paper: float, by_us: float) -> None:
    assert paper(loss) == pytest.approx(by_paper)
    assert exact(loss) == pytest.approx(by_us)


def test_the_simulator_agrees_with_the_exact_formula_where_no_epoch_ends() -> None:
    rows = dict(preemption(seeds=2))

    for row in rows.values():
        simulated = row["simulated"]
        assert simulated["no epochs, timeout"]["mean"] == pytest.approx(row["exact"], rel=0.04)
        assert simulated["rolling, notice"]["mean"] <= simulated["barrier, notice"]["mean"]
    lost = rows["0.2"]["simulated"]
    assert lost["barrier, timeout"]["mean"] > 1.2 * lost["rolling, timeout"]["mean"]


def test_the_papers_prices_make_the_papers_bill() -> None:
    minutes = {"barrier, timeout": {"mean": 480.0}, "rolling, notice": {"mean": 480.0}}
    lossy = {**minutes, "barrier, timeout": {"mean": 960.0}}
    rows = dict(
        cost(
            {
                "0.0": {"paper": paper(0.0), "simulated": minutes},
                "0.2": {"paper": paper(0.2), "simulated": lossy},
            }
        )
    )

    assert rows["paper"]["on_demand"] == pytest.approx(13.4, abs=0.1)
    assert rows["paper"]["spot"] == pytest.approx(4.0, abs=0.05)
    assert rows["barrier, timeout / 0.0 / 0.1"]["saved"] == pytest.approx(0.9)
    assert rows["barrier, timeout / 0.2 / 0.3"]["saved"] == pytest.approx(1 - 2 * 0.3)

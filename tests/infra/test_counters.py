from threading import Thread

from infra.local.counters import Counters, Counts


def test_totals_per_function() -> None:
    counters = Counters()
    counters.add("Plan", Counts(invocations=1, acknowledged=2))
    counters.add("Plan", Counts(invocations=1, retried=3, errors=1))
    counters.add("Reconcile", Counts(timeouts=1))
    assert counters.snapshot() == {
        "Plan": Counts(invocations=2, acknowledged=2, retried=3, errors=1),
        "Reconcile": Counts(timeouts=1),
    }


def test_a_snapshot_does_not_move() -> None:
    counters = Counters()
    before = counters.snapshot()
    counters.add("Plan", Counts(invocations=1))
    assert before == {}


def test_threads_lose_no_count() -> None:
    counters = Counters()

    def count() -> None:
        for _ in range(500):
            counters.add("Plan", Counts(invocations=1))

    threads = [Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counters.snapshot()["Plan"].invocations == 2000

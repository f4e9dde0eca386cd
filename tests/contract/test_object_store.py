"""What every ``ObjectSweeper`` does, whether in memory, on a folder or on S3 (moto, loopback)."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from spotgrad.errors import ConditionFailed, NotFound
from spotgrad.ports import ABSENT, Absent, ObjectSweeper

KEY = "state/digits/head.json"
THREADS = 16
ROUNDS = 5


def keys(store: ObjectSweeper, prefix: str) -> list[str]:
    return [info.key for info in store.list(prefix)]


@pytest.mark.parametrize("body", [b"", b"\0\r\n\xff", b"x" * 300_000])
def test_what_is_put_is_got(store: ObjectSweeper, body: bytes) -> None:
    etag = store.put(KEY, body)
    found = store.get(KEY)
    assert found.body == body
    assert found.etag == etag


def test_a_missing_key_is_not_found_and_named(store: ObjectSweeper) -> None:
    store.put("a/b", b"1")
    for key in ("absent", "a", "a/b/c"):
        with pytest.raises(NotFound, match=key):
            store.get(key)


def test_a_write_replaces_the_whole_object(store: ObjectSweeper) -> None:
    first = store.put(KEY, b"a long first body")
    second = store.put(KEY, b"short")
    assert store.get(KEY).body == b"short"
    assert first != second


def test_only_if_absent_creates_once(store: ObjectSweeper) -> None:
    etag = store.put(KEY, b"1", only_if=ABSENT)
    with pytest.raises(ConditionFailed):
        store.put(KEY, b"2", only_if=Absent())
    assert store.get(KEY).body == b"1"
    assert store.get(KEY).etag == etag


def test_only_if_tag_replaces_what_it_names_alone(store: ObjectSweeper) -> None:
    first = store.put(KEY, b"1")
    second = store.put(KEY, b"2", only_if=first)
    with pytest.raises(ConditionFailed):
        store.put(KEY, b"3", only_if=first)
    assert store.get(KEY).body == b"2"
    assert store.put(KEY, b"3", only_if=second) == store.get(KEY).etag


def test_a_missing_key_fails_a_tag(store: ObjectSweeper) -> None:
    tag = store.put("other", b"1")
    with pytest.raises(ConditionFailed):
        store.put(KEY, b"1", only_if=tag)
    assert keys(store, "") == ["other"]


def test_a_deleted_object_is_absent_again(store: ObjectSweeper) -> None:
    tag = store.put(KEY, b"1")
    store.delete(KEY)
    with pytest.raises(NotFound):
        store.get(KEY)
    with pytest.raises(ConditionFailed):
        store.put(KEY, b"2", only_if=tag)
    store.put(KEY, b"3", only_if=ABSENT)


def test_deleting_what_is_absent_is_no_error(store: ObjectSweeper) -> None:
    store.delete("absent/key")
    store.put("a/b", b"1")
    store.delete("a/c")
    assert keys(store, "") == ["a/b"]


def test_delete_leaves_the_neighbours(store: ObjectSweeper) -> None:
    for key in ("a/b/c", "a/b/d", "a/e"):
        store.put(key, b"1")
    store.delete("a/b/c")
    assert keys(store, "") == ["a/b/d", "a/e"]


def test_a_listing_is_in_order_of_utf8_bytes_of_the_whole_key(store: ObjectSweeper) -> None:
    # "." and "-" sort before "/", so folder by folder would be wrong; U+FF5A precedes U+1F600 in
    # UTF-8 but follows it in UTF-16.
    ordered = ["a-b", "a.json", "a/b", "a/b.x", "a/b/c", "aa", "b", "é", "\uff5a", "\U0001f600"]
    wanted = [key for key in ordered if key != "a/b"]  # a folder cannot be an object as well
    for key in reversed(wanted):
        store.put(key, b"1")
    assert keys(store, "") == wanted


@pytest.mark.parametrize(
    ("prefix", "wanted"),
    [
        ("results/digits/", ["results/digits/000001/x", "results/digits/000002/y"]),
        ("results/digits", ["results/digits-2/z", "results/digits/000001/x"]),
        ("results/digits/000001", ["results/digits/000001/x"]),
        ("results/digits/000001/x", ["results/digits/000001/x"]),
        ("results/digits/000001/x/", []),
        ("nothing/here", []),
        ("results//", []),
        ("/", []),
    ],
)
def test_a_prefix_is_a_string_not_a_folder(
    store: ObjectSweeper, prefix: str, wanted: list[str]
) -> None:
    for key in ("results/digits/000001/x", "results/digits/000002/y", "results/digits-2/z", "r"):
        store.put(key, b"1")
    assert keys(store, prefix)[: len(wanted)] == wanted
    assert all(key.startswith(prefix) for key in keys(store, prefix))


def test_an_empty_store_lists_nothing(store: ObjectSweeper) -> None:
    assert keys(store, "") == []


def test_a_listing_tells_size_tag_and_age(store: ObjectSweeper) -> None:
    first = store.put("a", b"12345")
    second = store.put("b", b"")
    rows = list(store.list(""))
    assert [(row.size_bytes, row.etag) for row in rows] == [(5, first), (0, second)]
    for row in rows:
        offset = row.modified_at.utcoffset()
        assert offset is not None
        assert offset.total_seconds() == 0
    assert rows[0].modified_at <= rows[1].modified_at


def test_a_listing_goes_beyond_one_page(
    store: ObjectSweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "5")  # moto's page; S3's has 1,000 keys
    wanted = [f"k/{number:04}" for number in range(11)]
    for key in wanted:
        store.put(key, b"")
    assert keys(store, "k/") == wanted


@pytest.mark.parametrize("key", ["jobs/my job+é.yaml", "a/b=c&d?e%2F#f", "x/~(y)'z!*", "a/b..c"])
def test_a_key_is_taken_literally(store: ObjectSweeper, key: str) -> None:
    store.put(key, b"1")
    assert store.get(key).body == b"1"
    assert keys(store, "") == [key]


@pytest.fixture
def eager_switches() -> Iterator[None]:
    """Threads take turns 500 times as often as usual, so that a race shows itself."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


def race(write: Callable[[int], object]) -> list[int]:
    """Let all threads write at once; return who succeeded. Only a lost condition is forgiven."""
    barrier = threading.Barrier(THREADS)

    def run(number: int) -> bool:
        barrier.wait()
        try:
            write(number)
        except ConditionFailed:
            return False
        return True

    with ThreadPoolExecutor(THREADS) as pool:
        return [number for number, won in enumerate(pool.map(run, range(THREADS))) if won]


@pytest.mark.usefixtures("eager_switches")
@pytest.mark.parametrize("round_number", range(ROUNDS))
def test_of_many_creators_exactly_one_wins(store: ObjectSweeper, round_number: int) -> None:
    key = f"{KEY}-{round_number}"
    winners = race(lambda number: store.put(key, bytes([number]), only_if=ABSENT))
    assert [store.get(key).body] == [bytes([number]) for number in winners]


@pytest.mark.usefixtures("eager_switches")
@pytest.mark.parametrize("round_number", range(ROUNDS))
def test_of_many_replacers_exactly_one_wins(store: ObjectSweeper, round_number: int) -> None:
    key = f"{KEY}-{round_number}"
    tag = store.put(key, b"first")
    winners = race(lambda number: store.put(key, bytes([number]), only_if=tag))
    assert [store.get(key).body] == [bytes([number]) for number in winners]


def test_a_counter_kept_by_condition_loses_no_increment(store: ObjectSweeper) -> None:
    store.put(KEY, b"0")

    def increment(_: int) -> None:
        while True:
            found = store.get(KEY)
            try:
                store.put(KEY, str(int(found.body) + 1).encode(), only_if=found.etag)
            except ConditionFailed:
                continue
            return

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(increment, range(24)))
    assert store.get(KEY).body == b"24"

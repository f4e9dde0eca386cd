import io
import stat
import struct
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotgrad.errors import Malformed
from spotgrad.protocol import bundle
from spotgrad.protocol.bundle import pack, unpack

FILES = {"task.py": b"x = 1\n", "lib/__init__.py": b"", "lib/deep/a.txt": bytes(range(256))}

parts = st.text(
    st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters="/\\:"),
    min_size=1,
    max_size=20,
).filter(lambda part: part not in (".", ".."))
paths = st.lists(parts, min_size=1, max_size=4).map("/".join)


def zipped(*entries: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    """Any zip file at all, also such as ``pack`` would never write."""
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return body.getvalue()


def of_type(kind: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo("odd")
    entry.external_attr = (kind | 0o777) << 16
    return entry


@given(st.dictionaries(paths, st.binary(max_size=200), max_size=8))
def test_unpack_reads_what_pack_wrote(files: dict[str, bytes]) -> None:
    folders = {
        name.rsplit("/", depth)[0] for name in files for depth in range(1, name.count("/") + 1)
    }
    if folders & files.keys():
        with pytest.raises(Malformed, match="is a file and a folder"):
            pack(files)
    else:
        assert unpack(pack(files)) == files


def test_equal_files_are_equal_bytes_whatever_their_order() -> None:
    body = pack(FILES)
    assert pack(dict(reversed(FILES.items()))) == body
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        assert archive.namelist() == sorted(FILES)
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {entry.external_attr >> 16 for entry in archive.infolist()} == {0o100644}
        assert archive.testzip() is None


def test_a_bundle_without_files_is_one() -> None:
    assert unpack(pack({})) == {}


def test_bundles_of_other_tools_are_read_and_folders_passed_over() -> None:
    body = zipped(("lib/", b""), ("lib/a.py", b"a"), (of_type(stat.S_IFREG), b"b"))
    assert unpack(body) == {"lib/a.py": b"a", "odd": b"b"}


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "../task.py",
        "lib/../../task.py",
        "lib//task.py",
        "./task.py",
        "lib\\task.py",
        "C:task.py",
        "C:/task.py",
        "a\nb.py",
        "/".join("a" * 21),
        "a" * 256,
        "é" * 128,
    ],
)
def test_a_path_that_is_not_plain_is_refused_by_both(name: str) -> None:
    for attempt in (lambda: pack({name: b""}), lambda: unpack(zipped((name, b"")))):
        with pytest.raises(Malformed, match=r"^code bundle: ") as refusal:
            attempt()
        assert "\n" not in str(refusal.value)


def test_depth_and_length_at_their_limits_are_taken() -> None:
    files = {"/".join("a" * 20): b"deep", "b" * 255: b"long"}
    assert unpack(pack(files)) == files


def test_a_lone_surrogate_in_a_path_is_refused() -> None:
    with pytest.raises(Malformed, match="must not"):
        pack({"\ud800.py": b""})


def test_a_name_cut_at_a_zero_byte_is_refused() -> None:
    body = zipped(("a.pyXb", b"")).replace(b"a.pyXb", b"a.py\0b")
    with pytest.raises(Malformed, match="must not"):
        unpack(body)


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_links_and_devices_are_refused(kind: int) -> None:
    with pytest.raises(Malformed, match="'odd' is a link or a device"):
        unpack(zipped((of_type(kind), b"/etc/passwd")))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice_is_refused() -> None:
    with pytest.raises(Malformed, match=r"'a\.py' is in it twice"):
        unpack(zipped(("a.py", b"1"), ("a.py", b"2")))


def test_a_file_that_is_also_a_folder_is_refused() -> None:
    with pytest.raises(Malformed, match="'a' is a file and a folder"):
        unpack(zipped(("a", b"1"), ("a/b.py", b"2")))


def test_an_odd_compression_is_refused() -> None:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.py", b"1")
    with pytest.raises(Malformed, match="oddly compressed"):
        unpack(body.getvalue())


def test_an_encrypted_file_is_refused() -> None:
    body = bytearray(zipped(("a.py", b"1")))
    flags_at = body.index(b"PK\x01\x02") + 8
    body[flags_at] |= 1
    with pytest.raises(Malformed, match="encrypted"):
        unpack(bytes(body))


def test_too_many_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    three = {"a": b"", "b": b"", "c": b""}
    body = pack(three)
    monkeypatch.setattr(bundle, "MOST_FILES", 2)
    with pytest.raises(Malformed, match="3 entries, at most 2"):
        unpack(body)
    with pytest.raises(Malformed, match="3 files, at most 2"):
        pack(three)


def test_a_bomb_is_stopped_by_the_bytes_that_it_really_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bomb = {"a": bytes(600_000), "b": bytes(600_000)}
    body = pack(bomb)
    assert len(body) < 3_000
    monkeypatch.setattr(bundle, "MOST_BYTES", 1_000_000)
    with pytest.raises(Malformed, match="over 1,000,000 bytes at 'b'"):
        unpack(body)
    with pytest.raises(Malformed, match="over 1,000,000 bytes"):
        pack(bomb)
    monkeypatch.setattr(bundle, "MOST_BYTES", 1_200_000)
    assert unpack(body) == bomb


def test_a_bundle_that_is_too_large_as_it_lies_is_not_even_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bundle, "MOST_BYTES", 10)
    with pytest.raises(Malformed, match="over 10 bytes"):
        unpack(b"not a zip file")


def test_a_size_that_lies_is_refused() -> None:
    body = bytearray(zipped(("a.py", b"0123456789")))
    size_at = body.index(b"PK\x01\x02") + 24
    body[size_at : size_at + 4] = struct.pack("<I", 3)
    with pytest.raises(Malformed, match="not a readable zip file"):
        unpack(bytes(body))


def test_a_file_that_claims_to_be_larger_than_it_is_is_refused() -> None:
    body = bytearray(zipped(("a.py", b"0123456789")))
    entry_at = body.index(b"PK\x01\x02")
    body[entry_at + 20 : entry_at + 28] = struct.pack("<II", 10**9, 10**9)
    with pytest.raises(Malformed, match="not a readable zip file"):
        unpack(bytes(body))


def test_two_names_for_one_file_are_refused() -> None:
    """A reader of the directory and a reader of the file would see different names."""
    body = zipped(("good.py", b"1")).replace(b"good.py", b"evil.py", 1)
    with pytest.raises(Malformed, match="not a readable zip file"):
        unpack(body)


def test_entries_that_share_their_bytes_are_counted_as_often_as_they_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bomb of many names for one compressed kernel."""
    one = zipped((zipfile.ZipInfo("a"), bytes(1_000)))
    entry_at, end_at = one.index(b"PK\x01\x02"), one.index(b"PK\x05\x06")
    entries, count = one[entry_at:end_at] * 50, struct.pack("<HH", 50, 50)
    end = bytearray(one[end_at:])
    end[8:12], end[12:16] = count, struct.pack("<I", len(entries))
    body = one[:entry_at] + entries + bytes(end)
    with pytest.raises(Malformed, match="is in it twice"):
        unpack(body)
    monkeypatch.setattr(bundle, "MOST_FILES", 49)
    with pytest.raises(Malformed, match="50 entries, at most 49"):
        unpack(body)


@given(st.integers(min_value=0, max_value=len(pack(FILES)) - 1), st.integers(1, 255))
def test_a_damaged_bundle_is_malformed_or_still_plain(position: int, change: int) -> None:
    body = bytearray(pack(FILES))
    body[position] ^= change
    try:
        files = unpack(bytes(body))
    except Malformed:
        return
    assert all(".." not in name.split("/") and not name.startswith("/") for name in files)


@given(st.integers(min_value=0, max_value=len(pack(FILES)) - 1))
def test_a_truncated_bundle_is_malformed(length: int) -> None:
    with pytest.raises(Malformed, match="not a readable zip file"):
        unpack(pack(FILES)[:length])


@given(st.binary(max_size=300))
def test_bytes_that_are_no_zip_file_are_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        unpack(body)

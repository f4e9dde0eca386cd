"""The user's training code as one zip file in memory: ``pack`` and ``unpack`` are twins.

Not an archive tool: nothing here touches a disk, so no entry can be written outside a folder. A
bundle comes from whoever may write ``jobs/``; what is not a plain relative file is refused whole.
Invariant: equal files give equal bytes, so a bundle is named by its digest.
"""

import io
import re
import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from spotgrad.errors import Malformed

__all__ = ["MOST_BYTES", "MOST_FILES", "pack", "unpack"]

MOST_FILES: Final = 10_000
MOST_BYTES: Final = 100_000_000
"""Uncompressed, all files together: training code, not data."""
MOST_DEPTH: Final = 20
MOST_PART_BYTES: Final = 255  # NAME_MAX of every common file system
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can say
_ENCRYPTED: Final = 0x1  # APPNOTE.TXT 4.4.4: general purpose bit 0
_PLAIN_TYPES: Final = frozenset({0, stat.S_IFREG, stat.S_IFDIR})
_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_CHUNK_BYTES: Final = 1 << 16
_BROKEN: Final = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OSError,
)
"""All that ``zipfile`` raises for bytes that are no readable zip file."""


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return the zip file that holds ``files`` by relative path (``/`` between parts).

    Raises:
        Malformed: a path or a total that ``unpack`` would refuse.
    """
    _check_files(files)
    if sum(map(len, files.values())) > MOST_BYTES:
        raise Malformed(f"code bundle: over {MOST_BYTES:,} bytes: leave data out of it")
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system = 3  # Unix, on whatever machine
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name])
    return body.getvalue()


def unpack(body: bytes) -> dict[str, bytes]:
    """Read what ``pack``, or any zip tool, wrote; entries for folders are passed over.

    Raises:
        Malformed: not a zip file, encrypted, a path that leaves its folder, a link, a name twice,
            too many files, too deep, or more bytes than allowed (counted, never as claimed).
    """
    if len(body) > MOST_BYTES:
        raise Malformed(f"code bundle: over {MOST_BYTES:,} bytes: leave data out of it")
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            return dict(_read(archive))
    except _BROKEN as error:
        raise Malformed(f"code bundle: not a readable zip file ({error})") from error


def _read(archive: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    entries = archive.infolist()
    if len(entries) > MOST_FILES:
        raise Malformed(
            f"code bundle: {len(entries):,} entries, at most {MOST_FILES:,} are allowed"
        )
    for entry in entries:
        _check_entry(entry)
    entries = [entry for entry in entries if not entry.is_dir()]
    _check_files([entry.filename for entry in entries])
    room = MOST_BYTES
    for entry in entries:
        content = _content(archive, entry, room)
        room -= len(content)
        yield entry.filename, content


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, room: int) -> bytes:
    """Read one file, believing the ``room`` that is left and not the size that its header says."""
    content = bytearray()
    with archive.open(entry) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            content += chunk
            if len(content) > room:
                raise Malformed(f"code bundle: over {MOST_BYTES:,} bytes at {entry.filename!r}")
    return bytes(content)


def _check_entry(entry: zipfile.ZipInfo) -> None:
    _check_path(entry.orig_filename.removesuffix("/"))  # zipfile cuts a name at a zero byte
    if stat.S_IFMT(entry.external_attr >> 16) not in _PLAIN_TYPES:
        raise Malformed(f"code bundle: {entry.filename!r} is a link or a device, not a plain file")
    if entry.flag_bits & _ENCRYPTED or entry.compress_type not in _METHODS:
        raise Malformed(f"code bundle: {entry.filename!r} is encrypted or oddly compressed")


def _check_files(names: Iterable[str]) -> None:
    """Refuse a set of paths that one folder could not hold."""
    files: set[str] = set()
    folders: set[str] = set()
    for name in names:
        _check_path(name)
        if name in files:
            raise Malformed(f"code bundle: {name!r} is in it twice")
        files.add(name)
        parts = name.split("/")
        folders.update("/".join(parts[:depth]) for depth in range(1, len(parts)))
    if len(files) > MOST_FILES:
        raise Malformed(f"code bundle: {len(files):,} files, at most {MOST_FILES:,} are allowed")
    for name in sorted(files & folders):
        raise Malformed(f"code bundle: {name!r} is a file and a folder")


def _check_path(name: str) -> None:
    parts = name.split("/")
    if {"", ".", ".."} & set(parts):
        raise Malformed(f"code bundle: {name!r} is not a plain relative path")
    # A colon is a drive on Windows, and no control character belongs in a name.
    if re.search(r"[\\:\x00-\x1f\x7f\ud800-\udfff]", name):
        raise Malformed(f"code bundle: {name!r} holds a character that paths must not")
    if len(parts) > MOST_DEPTH:
        raise Malformed(f"code bundle: {name[:80]!r}... is nested over {MOST_DEPTH} deep")
    if any(len(part.encode()) > MOST_PART_BYTES for part in parts):
        raise Malformed(f"code bundle: {name[:80]!r}... has a part of over {MOST_PART_BYTES} bytes")

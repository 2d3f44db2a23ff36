"""Repairs the state file before SQLite opens it: its write-ahead log, and its first page.

SQLite takes all frames behind the first bad one for never written, discards the log of an empty database, and reads nothing of
a file whose first page is bad. Damaged bytes are kept beside the file, under a name with `corrupt`.
"""

import mmap
import shutil
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

PAGE_BYTES = 4096
_WORD = 0xFFFFFFFF
# The format of SQLite's log, https://sqlite.org/fileformat2.html#walformat: sums of little-endian and of big-endian words.
_LITTLE, _BIG = 0x377F0682, 0x377F0683
_FORMAT = 3007000
_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
# In the first page: the list of free pages, and the change at which its number of pages was valid.
_FREE, _VALID_FOR = slice(32, 40), slice(92, 96)
# In all first pages alike: magic, size of a page, bytes reserved in it, fractions of it; no vacuum at commits, and UTF-8.
_CONSTANT = (slice(18), slice(20, 24), slice(52, 60))


class _Frame(NamedTuple):
    page: int
    # Pages of the database after the transaction that the frame ends, else 0.
    pages: int
    salts: bytes
    is_good: bool
    start: int


def aside(path: Path, suffix: str = "") -> Path:
    """Return the name under which a damaged file is kept."""
    return path.with_name(f"{path.name}.corrupt-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}{suffix}")


def repair_log(path: Path) -> str | None:
    """Repair the log of the file at this path, which exists; return what was wrong, `None` for nothing.
    About 30 s of CPU for each GiB of the log, which has some MiB after a kill and none after an orderly end.
    """
    log = Path(f"{path}-wal")
    if not log.exists() or log.stat().st_size <= _HEADER_BYTES:
        return None
    with log.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        magic, version, page_bytes, _ = struct.unpack(">4I", content[:16])
        order = ">" if magic == _BIG else "<"
        sums = struct.unpack(">2I", content[24:32])
        is_good = (magic | 1, version, _sums(order, content[:24], (0, 0))) == (_BIG, _FORMAT, sums)
        if not is_good:
            page_bytes = PAGE_BYTES
        frames = list(_frames(content, page_bytes, order))
        # A log is written from its start again and again, with a higher salt each time: what is behind is older.
        newest = max((frame.salts for frame in frames if frame.is_good), default=b"")
        salts = content[16:24] if is_good else newest
        valid = next((n for n, frame in enumerate(frames) if not frame.is_good or frame.salts != salts), len(frames))
        ours = [frame for frame in frames if frame.salts == salts and frame.page]
        ends = [frame for frame in ours if frame.is_good and frame.pages]
        is_empty = bool(ends) and path.stat().st_size < page_bytes
        step = _FRAME_HEADER_BYTES + page_bytes
        if is_good and not is_empty and (not ends or ends[-1].start < _HEADER_BYTES + valid * step):
            return None
        moved_to = aside(path, "-wal")
        shutil.copyfile(log, moved_to)
        repaired = Path(f"{path}.begun-wal")
        repaired.write_bytes(b"")
        used: list[_Frame] = []
        if ends:
            # A bad page may have one bad byte: the checks of its table and the checksums of its rows find out.
            used = [
                frame
                for frame in ours
                if frame.start <= ends[-1].start and (frame.is_good or 1 < frame.page <= ends[-1].pages)
            ]
        if is_empty:
            # Older images of pages are all that is left of those that did not change since.
            older = [frame for frame in frames if frame.is_good and b"" < frame.salts < salts]
            older.sort(key=lambda frame: frame.salts)
            used = [frame._replace(pages=0) for frame in older if 0 < frame.page <= ends[-1].pages] + used
            # Without it SQLite would discard the log; the next step for an unreadable one is `replace_first_page`.
            first = next((frame.start + _FRAME_HEADER_BYTES for frame in reversed(used) if frame.page == 1), None)
            path.write_bytes(bytes(page_bytes) if first is None else content[first : first + page_bytes])
        if used:
            _write_log(repaired, content, page_bytes, used)
    moved_to.chmod(0o600)
    repaired.chmod(0o600)
    repaired.replace(log)
    what = "it was empty or missing, and is read from its log" if is_empty else "bytes of its log were changed"
    return f"{what}; that log is kept as `{moved_to.name}`"


def has_format(path: Path, fresh: Path) -> bool:
    """Return whether the constant bytes of a file's first page are those of a fresh database."""
    with path.open("rb") as file, fresh.open("rb") as other:
        page, expected = file.read(PAGE_BYTES), other.read(PAGE_BYTES)
    return all(page[part] == expected[part] for part in _CONSTANT)


def replace_first_page(path: Path, fresh: Path) -> None:
    """Put the first page of a fresh database in the place of a bad one, which is kept, unless the file is shorter."""
    if path.stat().st_size < PAGE_BYTES:
        return
    with fresh.open("rb") as file:
        page = bytearray(file.read(PAGE_BYTES))
    page[_FREE] = bytes(8)
    # Not equal to the counter: SQLite goes by the size of the file, not by the number of pages that stands here.
    page[_VALID_FOR] = bytes(4)
    with path.open("r+b") as file:
        kept = aside(path, "-page1")
        kept.write_bytes(file.read(PAGE_BYTES))
        kept.chmod(0o600)
        file.seek(0)
        file.write(page)


def _frames(log: mmap.mmap, page_bytes: int, order: str) -> Iterator[_Frame]:
    sums: tuple[int, ...] = struct.unpack(">2I", log[24:32])
    step = _FRAME_HEADER_BYTES + page_bytes
    for start in range(_HEADER_BYTES, len(log) - step + 1, step):
        page, pages, salts, *after = struct.unpack(">2I8s2I", log[start : start + _FRAME_HEADER_BYTES])
        # Each sum goes on from the one before it: behind a bad frame, from the one that is stored there.
        found = _sums(order, log[start : start + 8] + log[start + _FRAME_HEADER_BYTES : start + step], sums)
        sums = tuple(after)
        yield _Frame(page, pages, salts, found == sums, start)


def _write_log(path: Path, old: mmap.mmap, page_bytes: int, frames: list[_Frame]) -> None:
    head = struct.pack(">4I", _LITTLE, _FORMAT, page_bytes, 0) + frames[-1].salts
    sums = _sums("<", head, (0, 0))
    with path.open("wb") as file:
        file.write(head + struct.pack(">2I", *sums))
        for frame in frames:
            start = frame.start + _FRAME_HEADER_BYTES
            first = struct.pack(">2I", frame.page, frame.pages if frame.is_good else 0)
            image = old[start : start + page_bytes]
            sums = _sums("<", first + image, sums)
            file.write(first + frames[-1].salts + struct.pack(">2I", *sums) + image)


def _sums(order: str, content: bytes, before: tuple[int, ...]) -> tuple[int, ...]:
    first, second = before
    words = iter(struct.unpack(f"{order}{len(content) // 4}I", content))
    for one, other in zip(words, words, strict=True):
        first = (first + one + second) & _WORD
        second = (second + other + first) & _WORD
    return first, second

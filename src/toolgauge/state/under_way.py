"""A page that outlives the process, however it ends: what it evaluated or read then, and how often that was its last act.

The page is mapped into memory: a note costs a copy of some bytes, and no write that anybody waits for.
"""

import errno
import mmap
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

FILE_NAME = "toolgauge.underway"
_OWNER_READS_AND_WRITES = 0o600
_PAGE_BYTES = 64 * 1024
# Where the note is, its two names, and the list of those that ended a process.
_NAME_BYTES, _LIST_AT = 255, 1024
_NOTE = struct.Struct(f"<B{_NAME_BYTES + 1}p{_NAME_BYTES + 1}p")
_IDLE, _EVALUATES, _READS = 0, 1, 2
_TWICE = 2
# So many ends by one criterion, of whatever runs: it would end the process with each of them.
_MANY = 4
_MAX_ENDS = 200
_FORGOTTEN_AFTER_NS = 24 * 3600 * 1_000_000_000


class End(Struct, array_like=True):
    """What ended the process, `count` times: a criterion with a run, or a request (without a criterion)."""

    subject: str
    criterion: str
    count: int
    at_ns: int


class UnderWay:
    """The page of one state directory. `has_ended` when the process before this one was doing something as it ended."""

    def __init__(self, directory: Path, now_ns: int) -> None:
        """Raises `OSError` where the file cannot be written."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(directory / FILE_NAME, flags, _OWNER_READS_AND_WRITES)
        try:
            # A page that a full disk has no room for would end the process where it is written.
            content = os.pread(descriptor, _PAGE_BYTES, 0).ljust(_PAGE_BYTES, b"\0")
            if os.pwrite(descriptor, content, 0) < _PAGE_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._page = mmap.mmap(descriptor, _PAGE_BYTES)
        finally:
            os.close(descriptor)
        self._ends = {
            (end.subject, end.criterion): end for end in self._read() if now_ns - end.at_ns < _FORGOTTEN_AFTER_NS
        }
        kind, subject, criterion = _NOTE.unpack_from(self._page)
        self.has_ended = kind in (_EVALUATES, _READS)
        if self.has_ended:
            key = subject.decode(errors="replace"), criterion.decode(errors="replace")
            known = self._ends.pop(key, None)
            self._ends[key] = End(*key, 1 if known is None else known.count + 1, now_ns)
        self._write([*self._ends.values()][-_MAX_ENDS:])
        self.rests()

    def evaluates(self, run: str, criterion: str) -> None:
        """Note that a run is being evaluated."""
        _NOTE.pack_into(self._page, 0, _EVALUATES, _name(run), _name(criterion))

    def reads(self, entry: int) -> None:
        """Note that a request of the journal is being read."""
        _NOTE.pack_into(self._page, 0, _READS, str(entry).encode(), b"")

    def rests(self) -> None:
        """Note that nothing is being done."""
        self._page[0] = _IDLE

    @property
    def ended_by(self) -> Mapping[tuple[str, str], int]:
        """How often a run with a criterion was under way at the end; all runs of a criterion together without a run."""
        of_criteria: dict[str, int] = {}
        for end in self._ends.values():
            if end.criterion:
                of_criteria[end.criterion] = of_criteria.get(end.criterion, 0) + end.count
        found = {(end.subject, end.criterion): end.count for end in self._ends.values() if end.criterion}
        found.update({("", name): count for name, count in of_criteria.items() if count >= _MANY})
        return {key: count for key, count in found.items() if count >= _TWICE}

    def was_end_of(self, entry: int) -> bool:
        """Whether the process ended twice while it read this request."""
        end = self._ends.get((str(entry), ""))
        return end is not None and end.count >= _TWICE

    def _read(self) -> Iterator[End]:
        try:
            size = int.from_bytes(self._page[_LIST_AT : _LIST_AT + 4])
            yield from msgspec.msgpack.decode(self._page[_LIST_AT + 4 : _LIST_AT + 4 + size], type=list[End])
        except msgspec.MsgspecError:
            # A new page, or one that a disk has damaged.
            return

    def _write(self, ends: list[End]) -> None:
        while len(written := msgspec.msgpack.encode(ends)) > _PAGE_BYTES - _LIST_AT - 4:
            ends = ends[1:]
        self._page[_LIST_AT : _LIST_AT + 4 + len(written)] = len(written).to_bytes(4) + written


def _name(text: str) -> bytes:
    return text.encode(errors="replace")[:_NAME_BYTES]

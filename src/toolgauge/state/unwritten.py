"""Requests that are needed and in memory only: they came while the journal could not be written, or its file was damaged.

The next start counts them as lost if the process is killed before they are written or needed no more.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from toolgauge.model.journal import JournalEntry
from toolgauge.state.journal_rows import Group


class Unwritten:
    """Keeps requests until they can be written, up to `max_bytes`; beyond it only the ids of requests, which cannot be written."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.size_bytes = 0  # Of the requests that can be written
        self._entries: dict[int, JournalEntry | None] = {}
        # How many requests of damaged files are still needed, and an id that is higher than theirs.
        self._set_aside, self._set_aside_below = 0, 0

    def __len__(self) -> int:
        return len(self._entries) + self._set_aside

    def holds(self, entry_id: int) -> bool:
        """Return whether this request, which is needed, is in memory only. Any thread may ask."""
        return entry_id in self._entries or entry_id < self._set_aside_below

    def add(self, entries: Iterable[JournalEntry], delivered: Iterable[int] = ()) -> None:
        """Add requests that could not be written, and mark the `delivered` ones."""
        for entry in entries:
            is_kept = self.size_bytes + len(entry.body) <= self._max_bytes
            self.size_bytes += len(entry.body) if is_kept else 0
            self._entries[entry.id] = entry if is_kept else None
        for entry_id in delivered:
            if (known := self._entries.get(entry_id)) is not None:
                self._entries[entry_id] = replace(known, delivered=True)

    def set_aside(self, needed: int, below: int) -> None:
        """Note that the file with so many needed requests was damaged, and all ids below one with it."""
        self._set_aside, self._set_aside_below = self._set_aside + needed, below

    def apply(self, group: Group) -> None:
        """Take the changes of a group that are about these requests."""
        if self._set_aside_below:
            # Of those below the id, some were on their way when the file was damaged.
            self._set_aside += sum(entry_id < self._set_aside_below for entry_id in group.appended)
            gone = [one for one in group.removed if one < self._set_aside_below and one not in self._entries]
            self._set_aside = max(0, self._set_aside - len(gone))
        self.forget(group.removed)
        self.add((), group.delivered)

    def forget(self, ids: Iterable[int]) -> None:
        """Drop requests that are written, or needed no more."""
        for entry_id in ids:
            if (entry := self._entries.pop(entry_id, None)) is not None:
                self.size_bytes -= len(entry.body)

    def next(self, max_bytes: int, *, own: bool = False) -> Mapping[int, JournalEntry]:
        """Return the oldest that can be written, of so many bytes or little more; only our own where wanted."""
        found: dict[int, JournalEntry] = {}
        for entry_id, entry in self._entries.items():
            if entry is not None and (entry.own or not own):
                found[entry_id] = entry
                max_bytes -= len(entry.body)
                if max_bytes <= 0:
                    break
        return found

"""People's verdicts on runs: the latest of each run, in bounded memory and in the state file.

The scorecards of marked runs are kept beside them, for as long as there is room. Scorecards are read from the file without
pickle: only the types of the model are made.
"""

import csv
import logging
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from io import StringIO
from threading import Lock
from typing import Final, Self, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.msgpack import Ext

from toolgauge.model import content, left_out, observations, outcomes, records, trajectory
from toolgauge.model.errors import StateError
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.trajectory import Trajectory
from toolgauge.report.trajectory_rows import trajectory_id
from toolgauge.state.store import StateStore

_LOG = logging.getLogger("toolgauge")
WEB_VIEW: Final = "web view"
_OWN: Final = frozenset({WEB_VIEW, "mark"})
MAX_VERDICTS = 1000
_MIB = 1024 * 1024
_MAX_BYTES, _MAX_RUN_BYTES = 32 * _MIB, _MIB // 2
_COLUMNS = ("trace_id", "conversation_id", "verdict", "reason", "source", "time")
# A spreadsheet takes a cell that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class RunVerdict(Struct, frozen=True, kw_only=True):
    """A verdict on a run, by the id of its page. `source` is `web view`, `mark`, or the name of an evaluation."""

    id: str
    trace_id: str | None
    conversation_id: str | None
    is_good: bool
    reason: str = ""
    source: str = WEB_VIEW
    given_ns: int = 0

    @classmethod
    def on(cls, run: Trajectory, *, is_good: bool, reason: str, source: str, given_ns: int) -> Self:
        """Make a verdict on a run."""
        return cls(
            id=trajectory_id(run),
            trace_id=run.trace_id if run.scope == "trace" else None,
            conversation_id=run.conversation_id,
            is_good=is_good,
            reason=reason,
            source=source,
            given_ns=given_ns,
        )

    @property
    def is_own(self) -> bool:
        """Whether a person gave it to toolgauge."""
        return self.source in _OWN


class _Kept(Struct, frozen=True):
    """A verdict, with the run's scorecard and its size as it is saved, where it is kept."""

    verdict: RunVerdict
    scorecard: Scorecard | None = None
    size_bytes: int = 0


class RunVerdicts:
    """At most `max_verdicts`, with scorecards of at most `max_bytes` together. Any thread may call; writing waits for the disk."""

    def __init__(self, max_verdicts: int = MAX_VERDICTS, max_bytes: int = _MAX_BYTES) -> None:
        self._max_verdicts, self._max_bytes = max_verdicts, max_bytes
        self._store: StateStore | None = None
        # The verdict that was given last is the last.
        self._kept: dict[str, _Kept] = {}
        self._lock = Lock()
        self.changes = 0

    def restore(self, store: StateStore | None) -> None:
        """Read the verdicts of earlier processes, and save in this store from here on."""
        self._store = store
        rows: list[tuple[bytes, bytes | None, int]] = []
        if store is not None:
            try:
                with store.reading() as connection:
                    rows = connection.execute("SELECT verdict, scorecard, checksum FROM verdicts").fetchall()
            except StateError as error:
                _LOG.error("cannot read the verdicts of earlier processes: %s", error)
        found: list[_Kept] = []
        for written, saved, checksum in rows:
            try:
                if _checksum(written, saved) == checksum:
                    verdict = msgspec.msgpack.decode(written, type=RunVerdict)
                    found.append(_Kept(verdict, None if saved is None else loaded(saved), len(saved or b"")))
            except (msgspec.DecodeError, LookupError, TypeError, ValueError):
                continue
        if len(found) < len(rows):
            _LOG.error("%d saved verdicts are damaged, and dropped", len(rows) - len(found))
        with self._lock:
            self._kept = {one.verdict.id: one for one in sorted(found, key=lambda one: one.verdict.given_ns)}
            self.changes += 1

    def give(self, verdict: RunVerdict, scorecard: Scorecard | None) -> None:
        """Keep a verdict in the place of the run's earlier one; raise `StateError` where it cannot be saved."""
        saved = None if scorecard is None else dumped(scorecard)
        if saved is not None and len(saved) > _MAX_RUN_BYTES:
            saved = None
        with self._lock:
            before = self._kept.get(verdict.id)
            one = _Kept(verdict, None if saved is None else scorecard, len(saved or b""))
            if saved is None and before is not None and before.scorecard is not None:
                one, saved = _Kept(verdict, before.scorecard, before.size_bytes), dumped(before.scorecard)
            kept = {key: value for key, value in self._kept.items() if key != verdict.id} | {verdict.id: one}
            self._save(verdict.id, one, saved, kept)

    def take_back(self, key: str) -> None:
        """Forget the verdict on a run; raise `StateError` where that cannot be saved."""
        with self._lock:
            self._save(key, None, None, {other: one for other, one in self._kept.items() if other != key})

    def find(self, key: str) -> RunVerdict | None:
        """Find the verdict on a run."""
        kept = self._kept.get(key)
        return None if kept is None else kept.verdict

    def newest(self) -> list[RunVerdict]:
        """Return all verdicts, the newest first."""
        return [one.verdict for one in reversed(list(self._kept.values()))]

    def runs(self) -> list[tuple[RunVerdict, Scorecard]]:
        """Return the verdicts on runs whose scorecards are kept, the newest first."""
        kept = reversed(list(self._kept.values()))
        return [(one.verdict, one.scorecard) for one in kept if one.scorecard is not None]

    def as_csv(self) -> str:
        """Write the verdicts as `learn --labels` reads them."""
        out = StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for one in self.newest():
            given = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(one.given_ns // 1_000_000_000))
            cells = (one.trace_id or "", one.conversation_id or "", "good" if one.is_good else "bad", one.reason)
            writer.writerow([_harmless(cell) for cell in (*cells, one.source, given)])
        return out.getvalue()

    def _save(self, key: str, one: _Kept | None, saved: bytes | None, kept: dict[str, _Kept]) -> None:
        """Make room, and write: first to the disk."""

        def oldest(worth: Callable[[_Kept], bool]) -> str:
            # The verdicts of others go first.
            return min((each for each in kept if worth(kept[each])), key=lambda each: kept[each].verdict.is_own)

        gone, without = {key} if one is None else set[str](), set[str]()
        while len(kept) > self._max_verdicts:
            gone.add(oldest(lambda _: True))
            kept = {other: each for other, each in kept.items() if other not in gone}
        while sum(each.size_bytes for each in kept.values()) > self._max_bytes:
            without.add(other := oldest(lambda each: bool(each.size_bytes)))
            kept[other] = _Kept(kept[other].verdict)
        if self._store is not None:
            with self._store.transaction() as connection:
                if one is not None:
                    written = msgspec.msgpack.encode(one.verdict)
                    row = (key, written, saved, _checksum(written, saved))
                    connection.execute("REPLACE INTO verdicts VALUES (?, ?, ?, ?)", row)
                for other in without:
                    written = msgspec.msgpack.encode(kept[other].verdict)
                    row = (other, written, None, _checksum(written, None))
                    connection.execute("REPLACE INTO verdicts VALUES (?, ?, ?, ?)", row)
                connection.executemany("DELETE FROM verdicts WHERE id = ?", ((other,) for other in gone))
        self._kept = kept
        self.changes += 1


def _checksum(written: bytes, saved: bytes | None) -> int:
    return zlib.crc32(saved or b"", zlib.crc32(written))


def _harmless(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


_Part: TypeAlias = (
    str
    | float
    | bytes
    | Struct
    | Mapping[str, "_Part"]
    | tuple["_Part", ...]
    | list["_Part"]
    | frozenset["_Part"]
    | None
)
_MODEL = (content, left_out, observations, outcomes, records, trajectory)
_STRUCTS: Mapping[str, type[Struct]] = {
    kind.__name__: kind
    for module in _MODEL
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Struct)
}
_COLLECTIONS: Mapping[str, Callable[[list[object]], object]] = {
    "tuple": tuple,
    "list": list,
    "frozenset": frozenset,
    "Tools": observations.Tools,
}


def dumped(scorecard: Scorecard) -> bytes | None:
    """Write a scorecard: a table of its objects, each once and behind its parts. `None` where a value cannot be written."""
    table: list[tuple[str, list[object]]] = []
    places: dict[int, int] = {}

    def placed(value: _Part) -> object:
        if value is None or isinstance(value, str | int | float | bytes):
            return value
        if id(value) not in places:
            name = type(value).__name__
            if isinstance(value, Struct):
                # Findings are found again.
                fields = [each for each in value.__struct_fields__ if each != "finding"]
                parts: Iterable[_Part] = [part for each in fields for part in (each, getattr(value, each))]
            elif isinstance(value, Mapping):
                name, parts = "dict", [part for pair in value.items() for part in pair]
            else:
                parts = value
            row = name, [placed(part) for part in parts]
            places[id(value)] = len(table)
            table.append(row)
        return Ext(0, places[id(value)].to_bytes(4))

    whole = Scorecard(trajectory=scorecard.trajectory, results=scorecard.results, scored_at_ns=scorecard.scored_at_ns)
    try:
        placed(whole)
        return msgspec.msgpack.encode(table)
    except (RecursionError, TypeError, ValueError, OverflowError):
        # Nested hundreds deep, half a character, a number of twenty digits: somebody's arguments.
        return None


def loaded(saved: bytes) -> Scorecard:
    """Read a scorecard; raise `DecodeError`, `LookupError`, `TypeError` or `ValueError` where it is damaged."""
    made: list[object] = []
    for name, parts in msgspec.msgpack.decode(saved, type=list[tuple[str, list[object]]]):
        values = [made[int.from_bytes(part.data)] if isinstance(part, Ext) else part for part in parts]
        if name in _COLLECTIONS:
            made.append(_COLLECTIONS[name](values))
            continue
        pairs = dict(zip(map(str, values[::2]), values[1::2], strict=True))
        made.append(pairs if name == "dict" else _STRUCTS[name](**pairs))
    if not isinstance(made[-1], Scorecard):
        raise TypeError("no scorecard")
    return made[-1]

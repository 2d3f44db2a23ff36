"""People's verdicts on runs: the latest of each run, in bounded memory and in the state file.

The scorecards of marked runs are kept beside them, for as long as there is room. Scorecards are read from the file without
pickle: only the types of the model are made.
"""

import csv
import logging
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from io import StringIO
from threading import Lock
from typing import Literal, Self, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.msgpack import Ext

from toolgauge.model import content, left_out, observations, outcomes, records, trajectory
from toolgauge.model.errors import StateError
from toolgauge.model.feedback import BY_MARK, IN_WEB_VIEW, MAX_REASON, VERDICT_NAME, Feedback
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.trajectory import Trajectory
from toolgauge.otlp.encode import fit_text
from toolgauge.report.html import iso_moment
from toolgauge.report.trajectory_rows import trajectory_id
from toolgauge.state.store import StateStore

_LOG = logging.getLogger("toolgauge")
MAX_VERDICTS = 1000
_MIB = 1024 * 1024
_MAX_BYTES, _MAX_RUN_BYTES = 32 * _MIB, _MIB // 2
_COLUMNS = ("trace_id", "conversation_id", "verdict", "reason", "source", "time")
_MAX_CONVERSATION = 1024
# A spreadsheet takes a cell that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

Word: TypeAlias = Literal["good", "bad"]


class RunVerdict(Feedback, frozen=True, kw_only=True):
    """A verdict on a run, by the id of its page. `source` is `web view`, `toolgauge.mark`, or the name of an evaluation."""

    name: str = VERDICT_NAME
    label: Word
    source: str = IN_WEB_VIEW
    id: str
    given_ns: int

    @classmethod
    def on(cls, run: Trajectory, label: Word, reason: str = "", source: str = IN_WEB_VIEW, given_ns: int = 0) -> Self:
        """Make a verdict on a run; the reason is cut, and left without line breaks and control characters."""
        return cls(
            id=trajectory_id(run),
            trace_id=run.trace_id if run.scope == "trace" else None,
            conversation_id=None if run.conversation_id is None else fit_text(run.conversation_id, _MAX_CONVERSATION),
            label=label,
            reason=plain_reason(reason),
            source=source,
            given_ns=given_ns,
        )

    @property
    def is_good(self) -> bool:
        """Whether it is a good run."""
        return self.label == "good"

    @property
    def is_own(self) -> bool:
        """Whether a person gave it to toolgauge."""
        return self.source in (IN_WEB_VIEW, BY_MARK)


class _Kept(Struct, frozen=True):
    """A verdict, with the run's scorecard as it is saved, where it is kept."""

    verdict: RunVerdict
    saved: bytes | None = None


class RunVerdicts:
    """At most `max_verdicts`, with scorecards of at most `max_bytes` together. Any thread may call; changes wait for the disk."""

    def __init__(self, max_verdicts: int = MAX_VERDICTS, max_bytes: int = _MAX_BYTES) -> None:
        self._max_verdicts, self._max_bytes = max_verdicts, max_bytes
        self._store: StateStore | None = None
        # The verdict that was given last is the last.
        self._kept: dict[str, _Kept] = {}
        self._lock = Lock()
        # Verdicts that wait for their runs, and the number of others, which found no room.
        self.heard = deque[Feedback](maxlen=max_verdicts)
        self.unmatched = 0
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
            # Rows of a damaged page hold anything.
            with suppress(msgspec.DecodeError, TypeError):
                if _checksum(written, saved) == checksum:
                    found.append(_Kept(msgspec.msgpack.decode(written, type=RunVerdict), saved))
        if len(found) < len(rows):
            _LOG.error("dropped %d damaged verdicts", len(rows) - len(found))
        with self._lock:
            self._kept = {one.verdict.id: one for one in sorted(found, key=lambda one: one.verdict.given_ns)}
            self.changes += 1

    def give(self, verdict: RunVerdict, scorecard: Scorecard | None) -> None:
        """Keep a verdict in the place of the run's earlier one; raise `StateError` where it cannot be saved."""
        saved = None if scorecard is None else dumped(scorecard)
        with self._lock:
            before = self._kept.get(verdict.id)
            if saved is None or len(saved) > _MAX_RUN_BYTES:
                saved = None if before is None else before.saved
            others = {key: one for key, one in self._kept.items() if key != verdict.id}
            self._save(others | {verdict.id: _Kept(verdict, saved)})

    def take_back(self, key: str) -> None:
        """Forget the verdict on a run; raise `StateError` where that cannot be saved."""
        with self._lock:
            self._save({other: one for other, one in self._kept.items() if other != key})

    def hear(self, feedback: Feedback) -> None:
        """Have a verdict that arrived wait for its run. Never waits for the disk."""
        # The web view has its own, or has taken it back.
        if feedback.passed is None or feedback.source == IN_WEB_VIEW:
            return
        is_long = len(feedback.conversation_id or "") > _MAX_CONVERSATION
        self.unmatched += is_long or len(self.heard) == self._max_verdicts
        if not is_long:
            self.heard.append(feedback)

    def settle(self, runs: Sequence[Scorecard], now_ns: int) -> list[tuple[RunVerdict, Scorecard]]:
        """Give the verdicts that were heard on these runs, while they can be saved; return them."""
        given: list[tuple[RunVerdict, Scorecard]] = []
        on_runs: dict[tuple[str | None, str | None], list[Scorecard]] = {}
        for one in runs if self.heard else ():
            run = one.trajectory
            for key in ((run.trace_id if run.scope == "trace" else None, None), (None, run.conversation_id)):
                on_runs.setdefault(key, []).append(one)
        for _ in range(len(self.heard)):
            feedback = self.heard.popleft()
            meant = on_runs.get((feedback.trace_id, feedback.conversation_id))
            if meant is None:
                self.hear(feedback)
            for one in meant or ():
                label = "good" if feedback.passed else "bad"
                source = BY_MARK if feedback.source == BY_MARK else feedback.name
                verdict = RunVerdict.on(one.trajectory, label, feedback.reason, source, now_ns)
                if not _counts(verdict, self.find(verdict.id)):
                    continue
                try:
                    self.give(verdict, one)
                except StateError:
                    # The journal is in the same file, and logs it.
                    self.hear(feedback)
                    return given
                given.append((verdict, one))
        return given

    def find(self, key: str) -> RunVerdict | None:
        """Find the verdict on a run."""
        kept = self._kept.get(key)
        return None if kept is None else kept.verdict

    def newest(self) -> list[RunVerdict]:
        """Return all verdicts, the newest first."""
        return [one.verdict for one in reversed(list(self._kept.values()))]

    def scorecard(self, key: str) -> Scorecard | None:
        """Read the scorecard of a run with a verdict, where it is kept."""
        kept = self._kept.get(key)
        # An earlier version wrote other fields.
        with suppress(msgspec.DecodeError, LookupError, TypeError, ValueError):
            return None if kept is None or kept.saved is None else loaded(kept.saved)
        return None

    def runs(self) -> list[tuple[RunVerdict, Scorecard]]:
        """Read the scorecards that are kept, the newest verdict first: half a second for the most that there may be."""
        found = [(verdict, self.scorecard(verdict.id)) for verdict in self.newest()]
        return [(verdict, scorecard) for verdict, scorecard in found if scorecard is not None]

    def as_csv(self) -> str:
        """Write the verdicts as `learn --labels` reads them."""
        out = StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for one in self.newest():
            cells = (one.trace_id, one.conversation_id, one.label, one.reason, one.source, iso_moment(one.given_ns))
            writer.writerow([f"'{cell}" if cell and cell.startswith(_FORMULA) else cell for cell in cells])
        return out.getvalue()

    def _save(self, kept: dict[str, _Kept]) -> None:
        """Make room, and write the changes: first to the disk."""
        # The oldest verdicts of others go first.
        order = sorted(kept, key=lambda key: kept[key].verdict.is_own)
        for key in order[: max(0, len(kept) - self._max_verdicts)]:
            del kept[key]
        size_bytes = sum(len(one.saved or b"") for one in kept.values())
        for key in order:
            if size_bytes > self._max_bytes and key in kept:
                size_bytes -= len(kept[key].saved or b"")
                kept[key] = _Kept(kept[key].verdict)
        if self._store is not None:
            with self._store.transaction() as connection:
                # A row was damaged, or the file begun again.
                known = {key for (key,) in connection.execute("SELECT id FROM verdicts")}
                for key, one in kept.items():
                    if key not in known or self._kept.get(key) is not one:
                        written = msgspec.msgpack.encode(one.verdict)
                        row = (key, written, one.saved, _checksum(written, one.saved))
                        connection.execute("REPLACE INTO verdicts VALUES (?, ?, ?, ?)", row)
                gone = [(key,) for key in known - kept.keys()]
                connection.executemany("DELETE FROM verdicts WHERE id = ?", gone)
        self._kept = kept
        self.changes += 1


def plain_reason(text: str) -> str:
    """Cut a reason, and leave out line breaks and control characters."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:MAX_REASON]


def _counts(verdict: RunVerdict, before: RunVerdict | None) -> bool:
    """Return whether a verdict replaces an earlier one: others' do not replace a person's, and of others' a bad one stays."""
    if before is None or verdict.is_own:
        return True
    return not before.is_own and (before.is_good or verdict.source == before.source)


def _checksum(written: bytes, saved: bytes | None) -> int:
    return zlib.crc32(saved or b"", zlib.crc32(written))


_Part: TypeAlias = str | float | bytes | Struct | Mapping[str, "_Part"] | Collection["_Part"] | None
_MODEL = (content, left_out, observations, outcomes, records, trajectory)
_STRUCTS: Mapping[str, type[Struct]] = {
    kind.__name__: kind
    for module in _MODEL
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Struct)
}
_COLLECTIONS: Mapping[str, Callable[[list[object]], object]] = {
    kind.__name__: kind for kind in (tuple, list, frozenset, observations.Tools)
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

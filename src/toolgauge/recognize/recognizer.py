"""Finds the dialect that reads a record and turns the record into a `Reading`.

Spans and log records arrive as views, one at a time; a reading leaves, or nothing when nobody cares. A dialect
that fails on a hostile record costs this record's observations, never the process and never another record.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from toolgauge.model.json import Value
from toolgauge.model.observations import Observation, Reading
from toolgauge.model.ports import Dialect, Grounds
from toolgauge.model.records import LogRecord, Record, Span, SpanRef
from toolgauge.recognize.candidates import Candidates
from toolgauge.selfmetrics import SelfMetrics

# Reading what we sent ourselves and what other scorers sent would score scores.
_OWN_SCOPE = "toolgauge"
_OPENINFERENCE_KIND = "openinference.span.kind"
_EVALUATOR = "EVALUATOR"

Scalar = str | int | float | bool


class _Scores:
    """Is asked first and claims, for nobody, what we sent ourselves and what other scorers sent."""

    name = "scores"
    rank = 0
    marks: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    grounds = Grounds(keys=(_OPENINFERENCE_KIND,), scopes=(_OWN_SCOPE,))

    def claims(self, record: Record) -> bool:
        scope = record.scope.name
        if scope.startswith(_OWN_SCOPE) and (scope == _OWN_SCOPE or scope.startswith(_OWN_SCOPE + ".")):
            return True
        return record.attributes.get(_OPENINFERENCE_KIND) == _EVALUATOR

    def read(self, record: Record) -> Iterator[Observation]:  # noqa: ARG002 - it reads nothing
        return iter(())

    def attribute(self, record: Record, key: str) -> Value:  # noqa: ARG002 - it reads nothing
        return None


class Recognizer:
    """Asks the dialects in order of rank; exactly one reads a record.

    `wanted` are the attribute keys that criteria ask for; a record is also read for these alone.
    """

    def __init__(self, dialects: Sequence[Dialect], metrics: SelfMetrics, wanted: Collection[str] = ()) -> None:
        self._dialects = tuple(sorted(dialects, key=lambda dialect: (dialect.rank, dialect.name)))
        self._scores: Dialect = _Scores()
        self._asked: tuple[Dialect, ...] = (self._scores, *self._dialects)
        self._candidates = Candidates(self._asked)
        self._metrics = metrics
        self._wanted = tuple(sorted(set(wanted)))

    @property
    def marks(self) -> tuple[str, ...]:
        """Prefixes of attribute keys and event names that make a record worth decoding, beside `wanted`."""
        return _shortest([mark for dialect in self._dialects for mark in dialect.marks])

    @property
    def wanted(self) -> tuple[str, ...]:
        """Attribute keys that make a record worth decoding by themselves."""
        return self._wanted

    @property
    def scopes(self) -> tuple[str, ...]:
        """Prefixes of scope names whose records are always decoded."""
        return _shortest([scope for dialect in self._dialects for scope in dialect.scopes])

    def read(self, record: Record) -> Reading | None:
        """Read the record; `None` when no dialect claims it and it has no wanted attribute. Never raises."""
        ref = record.ref
        if ref is None:
            return None
        dialect, observations = self._ask(record)
        if dialect is self._scores:
            return None
        attributes = self._attributes(record, dialect) if self._wanted else ()
        if dialect is None and not any(key in record.attributes for key, _ in attributes):
            return None
        return _reading(record, ref, dialect, observations, attributes)

    def _ask(self, record: Record) -> tuple[Dialect | None, tuple[Observation, ...]]:
        for dialect in self._candidates.of(record) if isinstance(record, Span) else self._asked:
            try:
                if dialect.claims(record):
                    return dialect, tuple(dialect.read(record))
            except Exception:  # noqa: BLE001 - dialects are plug-ins and records are hostile
                self._metrics.dialect_errors.add(1, (dialect.name,))
                return None, ()
        return None, ()

    def _attributes(self, record: Record, dialect: Dialect | None) -> tuple[tuple[str, Scalar], ...]:
        found: list[tuple[str, Scalar]] = []
        for key in self._wanted:
            value = self._attribute(record, dialect, key)
            if not isinstance(value, Scalar):
                value = record.resource.attributes.get(key)
            if isinstance(value, Scalar):
                found.append((key, value))
        return tuple(found)

    def _attribute(self, record: Record, dialect: Dialect | None, key: str) -> Value:
        if dialect is None:
            return record.attributes.get(key)
        try:
            return dialect.attribute(record, key)
        except Exception:  # noqa: BLE001 - dialects are plug-ins and records are hostile
            self._metrics.dialect_errors.add(1, (dialect.name,))
            return None


def _reading(
    record: Record,
    ref: SpanRef,
    dialect: Dialect | None,
    observations: tuple[Observation, ...],
    attributes: tuple[tuple[str, Scalar], ...],
) -> Reading:
    name = dialect.name if dialect is not None else None
    match record:
        case Span():
            return Reading(
                ref=ref,
                is_log=False,
                parent_span_id=record.parent_span_id,
                parent_is_remote=record.parent_is_remote,
                start_ns=record.start_ns,
                end_ns=record.end_ns,
                service=record.resource.service,
                scope=record.scope.name,
                dialect=name,
                status=record.status,
                observations=observations,
                size_bytes=record.size_bytes,
                attributes=attributes,
            )
        case LogRecord():
            return Reading(
                ref=ref,
                is_log=True,
                parent_span_id=None,
                parent_is_remote=None,
                start_ns=record.time_ns,
                end_ns=record.time_ns,
                service=record.resource.service,
                scope=record.scope.name,
                dialect=name,
                status="unset",
                observations=observations,
                size_bytes=record.size_bytes,
                attributes=attributes,
            )


def _shortest(prefixes: Iterable[str]) -> tuple[str, ...]:
    kept: list[str] = []
    for prefix in sorted(set(prefixes)):
        # Sorted, a prefix comes right before what it covers.
        if not (kept and prefix.startswith(kept[-1])):
            kept.append(prefix)
    return tuple(kept)

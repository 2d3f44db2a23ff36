"""Finds the dialect that reads a record and turns the record into a `Reading`; a dialect that fails costs only this record."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from toolgauge.model.errors import is_interrupt
from toolgauge.model.json import Value
from toolgauge.model.names import stable_name
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallExecuted,
    CallRequested,
    MessageSeen,
    ModelCall,
    Observation,
    Reading,
)
from toolgauge.model.ports import Completing, Dialect, Grounds, Remembering
from toolgauge.model.records import Record, Span, SpanRef
from toolgauge.recognize import values
from toolgauge.recognize.conventions import span_failure
from toolgauge.recognize.cut_spans import of_cut_span
from toolgauge.recognize.envelopes import opened
from toolgauge.recognize.run_properties import properties
from toolgauge.selfmetrics import SelfMetrics

# Listing more keys than this costs more than asking.
_MAX_ATTRIBUTES = 32
_MAX_NAME = 256
_MAX_KNOWN = 1024
# `tool.call_id`, `lmnr.association.properties.metadata.tool_call_id`. Dialects know the conventions' own; a parent is another call.
_CALL_ID = re.compile(r"^(?!gen_ai\.|.*parent)(?:.*[._])?tool[._-]?call[._-]?id$", re.IGNORECASE | re.MULTILINE)
_WITH_AGENT = (ModelCall, CallRequested, CallExecuted, AgentRun)


class Candidates:
    """Leaves out dialects that cannot claim a span; asking each of them instead doubles the time of reading it."""

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        self._dialects = tuple(dialects)
        # With the keys of each; without grounds a dialect is asked about every span.
        self._grounds: list[tuple[Dialect, Grounds | None, frozenset[str]]] = []
        for dialect in dialects:
            declared = getattr(dialect, "grounds", None)
            grounds = declared if isinstance(declared, Grounds) else None
            keys = () if grounds is None else (*grounds.keys, *(key for key, _ in grounds.values))
            self._grounds.append((dialect, grounds, frozenset(keys)))
        self._keys = frozenset[str]().union(*(keys for _, _, keys in self._grounds))
        self._names = tuple({name for _, grounds, _ in self._grounds if grounds is not None for name in grounds.names})
        self._known: dict[tuple[str, frozenset[str], tuple[str, ...]], tuple[Dialect, ...]] = {}

    def of(self, span: Span) -> tuple[Dialect, ...]:
        """Give the dialects that could claim the span, in the order in which they are asked."""
        # To put them in order would take as long as to look at them.
        keys: Collection[str] = getattr(span.attributes, "unordered", span.attributes)
        if len(keys) > _MAX_ATTRIBUTES:
            return self._dialects
        scope, name, found = span.scope.name, span.name, self._keys.intersection(keys)
        # Few names begin so: they are those of tools.
        begins = tuple(filter(name.startswith, self._names)) if name.startswith(self._names) else ()
        known = self._known.get((scope, found, begins))
        if known is None:
            known = tuple(
                dialect
                for dialect, grounds, own in self._grounds
                if grounds is None
                or scope.startswith(grounds.scopes)
                or name.startswith(grounds.names)
                or not found.isdisjoint(own)
            )
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            if len(scope) <= _MAX_NAME:
                self._known[scope, found, begins] = known
        return known


# Reading what we sent ourselves and what other scorers sent would score scores.
_OWN_SCOPE = "toolgauge"
_OPENINFERENCE_KIND, _EVALUATOR = "openinference.span.kind", "EVALUATOR"

Scalar = str | int | float | bool


class Recognizer:
    """Has the first dialect by rank that claims a record read it; one with the attribute keys `wanted` is read for these too.

    A record is worth decoding with an attribute key or event name that begins as one of `marks`, one of the keys `wanted`, a scope
    that begins as one of `scopes` or has one of `scope_words` in its name, JSON that begins as one of `objects` (written without
    spaces), or one of `words` in a key or in the value of a kind.
    """

    def __init__(self, dialects: Sequence[Dialect], metrics: SelfMetrics, wanted: Collection[str] = ()) -> None:
        self._dialects = tuple(sorted(dialects, key=lambda dialect: (dialect.rank, dialect.name)))
        self._candidates = Candidates(self._dialects)
        self._completing = next((one for one in self._dialects if isinstance(one, Completing)), None)
        self._remembering = {one.name: one for one in self._dialects if isinstance(one, Remembering)}
        self._metrics = metrics
        self.wanted = tuple(sorted(set(wanted)))
        self.marks = _shortest(self._declared("marks"))
        self.scopes = _shortest(self._declared("scopes"))
        self.objects, self.scope_words, self.words = map(self._declared, ("objects", "scope_words", "words"))

    def _declared(self, name: str) -> tuple[str, ...]:
        return tuple(text for dialect in self._dialects for text in getattr(dialect, name, ()))

    def found_by(self, span: Span) -> str | None:
        """Return the key by which spans like this one are found; `None` where nothing of it is read. Never raises."""
        try:
            return None if self._completing is None else self._completing.found_by(span)
        except BaseException as error:  # noqa: BLE001 - dialects are plug-ins and records are hostile
            self._count(error, "")
            return None

    def read(self, record: Record) -> Reading | None:
        """Read the record; `None` when no dialect claims it and it has no wanted attribute. Never raises."""
        ref = record.ref
        if (
            ref is None
            or record.scope.name.partition(".")[0] == _OWN_SCOPE
            or record.attributes.get(_OPENINFERENCE_KIND) == _EVALUATOR
        ):
            return None
        dialect: Dialect | None = None
        observations: tuple[Observation, ...] = ()
        for one in self._candidates.of(record) if isinstance(record, Span) else self._dialects:
            try:
                if one.claims(record):
                    observations = tuple(one.read(record))
                    dialect = one
                    completing = self._completing
                    if completing is not None and completing is not one and isinstance(record, Span):
                        completed = completing.complete(record, observations, one.name)
                        if completed is not observations:
                            dialect = completing if one.name in completing.completes else one
                            observations = completed
                    break
            except BaseException as error:  # noqa: BLE001 - dialects are plug-ins and records are hostile
                self._count(error, one.name)
                break
        attributes = self._attributes(record, dialect) if self.wanted else ()
        if dialect is None and not any(key in record.attributes for key, _ in attributes):
            return None
        return _reading(record, ref, dialect, observations, attributes)

    def read_history(self, name: str, span: Span) -> tuple[CallRequested | MessageSeen, ...]:
        """Read the calls in the history that a model's span was given; none where the dialect reads no histories. Never raises."""
        dialect = self._remembering.get(name)
        if dialect is None:
            return ()
        try:
            return tuple(dialect.history(span))
        except BaseException as error:  # noqa: BLE001 - dialects are plug-ins and records are hostile
            self._count(error, name)
            return ()

    def _count(self, error: BaseException, dialect: str) -> None:
        if is_interrupt(error):
            raise error
        self._metrics.dialect_errors.add(1, (dialect,))

    def _attributes(self, record: Record, dialect: Dialect | None) -> tuple[tuple[str, Scalar], ...]:
        found: list[tuple[str, Scalar]] = []
        for key in self.wanted:
            value: Value = None
            try:
                value = record.attributes.get(key) if dialect is None else dialect.attribute(record, key)
            except BaseException as error:  # noqa: BLE001 - dialects are plug-ins and records are hostile
                self._count(error, "" if dialect is None else dialect.name)
            if not isinstance(value, Scalar):
                value = record.resource.attributes.get(key)
            if isinstance(value, Scalar):
                found.append((key, value))
        return tuple(found)


def _reading(
    record: Record,
    ref: SpanRef,
    dialect: Dialect | None,
    observations: tuple[Observation, ...],
    attributes: tuple[tuple[str, Scalar], ...],
) -> Reading:
    span = record if isinstance(record, Span) else None
    kinds = set(map(type, observations))
    if CallExecuted in kinds or CallAnswered in kinds:
        observations = tuple(map(opened, observations))
    for seen in observations:
        if isinstance(seen, _WITH_AGENT) and seen.agent is not None and stable_name(seen.agent) != seen.agent:
            observations = tuple(map(_with_stable_name, observations))
            break
    if span is not None and span.is_cut:
        observations = of_cut_span(span, observations)
    if span is not None and CallExecuted in kinds:
        for place, seen in enumerate(observations):
            if isinstance(seen, CallExecuted) and seen.call_id is None:
                identified = _with_call_id(seen, span.attributes)
                observations = (*observations[:place], identified, *observations[place + 1 :])
                break
    if span is not None and dialect is not None and (failure := span_failure(span, observations)) is not None:
        observations = (*observations, failure)
    if dialect is not None and (found := properties(record.attributes, observations)) is not None:
        observations = (*observations, found)
    resource, scope = record.resource, record.scope
    # With more than 15 keywords, Python makes a dict of them: 6 % of the CPU of reading a span.
    reading = Reading(
        ref=ref,
        is_log=span is None,
        parent_span_id=None if span is None else span.parent_span_id,
        parent_is_remote=None if span is None else span.parent_is_remote,
        start_ns=record.start_ns if isinstance(record, Span) else record.time_ns,
        end_ns=record.end_ns if isinstance(record, Span) else record.time_ns,
        service=resource.service,
        scope=scope.name,
        dialect=None if dialect is None else dialect.name,
        status="unset" if span is None else span.status,
        observations=observations,
        size_bytes=record.size_bytes,
        resource=resource.labels,
        version=scope.version,
        language=resource.language,
    )
    if span is not None and span.is_cut:
        reading = replace(reading, is_cut=True)
    return replace(reading, attributes=attributes) if attributes else reading


def _with_call_id(call: CallExecuted, attributes: Mapping[str, Value]) -> CallExecuted:
    """Take the id of a call from whatever attribute has it: those that a run inherits name the tool's call as well."""
    keys: Iterable[str] = getattr(attributes, "unordered", attributes)
    # Searching one text costs a tenth of testing each key.
    found = _CALL_ID.search("\n".join(keys))
    call_id = None if found is None else values.identifier(attributes.get(found[0]))
    return call if call_id is None else replace(call, call_id=call_id)


def _with_stable_name(seen: Observation) -> Observation:
    """Take ids out of the name of an agent, or its runs would have nothing in common."""
    if not isinstance(seen, _WITH_AGENT) or seen.agent is None or (name := stable_name(seen.agent)) == seen.agent:
        return seen
    changed = replace(seen, agent=name or None)
    return replace(changed, named_by_id=True) if isinstance(changed, AgentRun) else changed


def _shortest(prefixes: Iterable[str]) -> tuple[str, ...]:
    kept: list[str] = []
    for prefix in sorted(set(prefixes)):
        # Sorted, a prefix comes right before what it covers.
        if not (kept and prefix.startswith(kept[-1])):
            kept.append(prefix)
    return tuple(kept)

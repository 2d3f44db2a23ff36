"""Finds the dialect that reads a record and turns the record into a `Reading`; a dialect that fails costs only this record.

Spans of which the producer dropped attributes or events are read with care: a tool on offer, a message or an argument may be missing.
The properties of a run (model, provider, settings, prompt, agent's version, cost) explain regressions.
"""

import json
import re
from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import cast, get_args

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Recorded, Unparsed
from toolgauge.model.errors import is_interrupt
from toolgauge.model.json import Value
from toolgauge.model.metrics import MAX_PROPERTY, fit_label, short_hash
from toolgauge.model.names import stable_name
from toolgauge.model.observations import (
    REQUEST_MODEL,
    RESPONSE_MODEL,
    AgentRun,
    CallAnswered,
    CallExecuted,
    CallRequested,
    MessageSeen,
    ModelCall,
    Observation,
    PropertiesSeen,
    Reading,
    RunProperty,
    ToolsOffered,
)
from toolgauge.model.ports import Completing, Dialect, Grounds, Remembering
from toolgauge.model.records import Record, Span, SpanRef
from toolgauge.recognize import values
from toolgauge.recognize.conventions import TOKEN_KEYS, Keys, model_call, span_failure
from toolgauge.recognize.langchain import opened_answer, opened_call
from toolgauge.selfmetrics import SelfMetrics

_MAX_NAME = 256
_MAX_KNOWN = 1024
# `tool.call_id`, `lmnr.association.properties.metadata.tool_call_id`. Dialects know the conventions' own; a parent is another call.
_CALL_ID = re.compile(r"^(?!gen_ai\.|.*parent)(?:.*[._])?tool[._-]?call[._-]?id$", re.IGNORECASE | re.MULTILINE)
_WITH_AGENT = (ModelCall, CallRequested, CallExecuted, AgentRun)
_RUNS = (ModelCall, AgentRun)


class Candidates:
    """Leaves out dialects that cannot claim a span; asking each of them instead doubles the time of reading it."""

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        # Without grounds a dialect is asked about every span.
        self._grounds: list[tuple[Dialect, Grounds | None]] = []
        for dialect in dialects:
            declared = getattr(dialect, "grounds", None)
            self._grounds.append((dialect, declared if isinstance(declared, Grounds) else None))
        grounds = [one for _, one in self._grounds if one is not None]
        self._values = [*dict.fromkeys(value for one in grounds for value in one.values)]
        self._value_keys = frozenset(key for key, _ in self._values)
        self._keys = self._value_keys.union(*(one.keys for one in grounds))
        self._names = tuple({name for one in grounds for name in one.names})
        self._known: dict[tuple[str, frozenset[str], Sequence[object]], tuple[Dialect, ...]] = {}

    def of(self, span: Span) -> tuple[Dialect, ...]:
        """Give the dialects that could claim the span, in the order in which they are asked."""
        attributes, scope, name = span.attributes, span.scope.name, span.name
        found, more = self._keys.intersection(attributes), ()
        # Few names begin so: they are those of tools.
        if name.startswith(self._names):
            more = tuple(filter(name.startswith, self._names))
        if not found.isdisjoint(self._value_keys):
            more += tuple([value for value in self._values if attributes.get(value[0]) == value[1]])
        known = self._known.get((scope, found, more))
        if known is None:
            known = tuple(
                dialect
                for dialect, grounds in self._grounds
                if grounds is None
                or scope.startswith(grounds.scopes)
                or name.startswith(grounds.names)
                or not found.isdisjoint(grounds.keys)
                or any(value in more for value in grounds.values)
            )
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            if len(scope) <= _MAX_NAME:
                self._known[scope, found, more] = known
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
        declared = map(self._declared, ("marks", "scopes", "objects", "scope_words", "words"))
        self.marks, self.scopes, self.objects, self.scope_words, self.words = declared

    def _declared(self, name: str) -> tuple[str, ...]:
        """Return the texts that the dialects declare under a name, without longer forms of another text."""
        kept: list[str] = []
        for text in sorted({text for dialect in self._dialects for text in getattr(dialect, name, ())}):
            # Sorted, a text comes right before those that begin with it.
            if not (kept and text.startswith(kept[-1])):
                kept.append(text)
        return tuple(kept)

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
        span, completing = record if isinstance(record, Span) else None, self._completing
        for one in self._dialects if span is None else self._candidates.of(span):
            try:
                if one.claims(record):
                    observations = tuple(one.read(record))
                    dialect = one
                    if span is not None and completing is not None and completing is not one:
                        completed = completing.complete(span, observations, one.name)
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
        return _reading(record, span, ref, dialect, observations, attributes)

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
    span: Span | None,
    ref: SpanRef,
    dialect: Dialect | None,
    observations: tuple[Observation, ...],
    attributes: tuple[tuple[str, Scalar], ...],
) -> Reading:
    found, kinds = list(observations), {*map(type, observations)}
    needs_id = span is not None
    for place, seen in enumerate(observations):
        if type(seen) is CallAnswered:
            found[place] = opened_answer(seen)
        elif isinstance(seen, _WITH_AGENT):
            if type(seen) is CallExecuted:
                found[place] = called = opened_call(seen)
                if needs_id and called.call_id is None:
                    # Any attribute may have the id. Searching one text costs a tenth of testing each key.
                    key = _CALL_ID.search("\n".join(record.attributes))
                    call_id = None if key is None else values.identifier(record.attributes.get(key[0]))
                    found[place], needs_id = called if call_id is None else replace(called, call_id=call_id), False
            # An id in the name of an agent would leave its runs with nothing in common.
            if seen.agent is not None and (name := stable_name(seen.agent)) != seen.agent:
                changed = replace(found[place], agent=name or None)
                found[place] = replace(changed, named_by_id=True) if type(seen) is AgentRun else changed
    if span is not None and span.is_cut:
        found = _of_cut_span(span, found)
    if dialect is not None:
        if span is not None and (failure := span_failure(span, kinds)) is not None:
            found.append(failure)
        if not kinds.isdisjoint(_RUNS) and (run_properties := properties(record.attributes, found)) is not None:
            found.append(run_properties)
    resource, scope = record.resource, record.scope
    if isinstance(record, Span):
        parent, is_remote = record.parent_span_id, record.parent_is_remote
        start_ns, end_ns = record.start_ns, record.end_ns
    else:
        parent, is_remote, start_ns, end_ns = None, None, record.time_ns, record.time_ns
    # With more than 15 keywords, Python makes a dict of them: 6 % of the CPU of reading a span.
    reading = Reading(
        ref=ref,
        is_log=span is None,
        parent_span_id=parent,
        parent_is_remote=is_remote,
        start_ns=start_ns,
        end_ns=end_ns,
        service=resource.service,
        scope=scope.name,
        dialect=None if dialect is None else dialect.name,
        status="unset" if span is None else span.status,
        observations=tuple(found),
        size_bytes=record.size_bytes,
        resource=resource.labels,
        version=scope.version,
        language=resource.language,
    )
    if span is not None and span.is_cut:
        reading = replace(reading, is_cut=True)
    return replace(reading, attributes=attributes) if attributes else reading


def _of_cut_span(span: Span, observations: Sequence[Observation]) -> list[Observation]:
    """Return the observations that hold for a cut span: no offer, no empty answer, no arguments of which some may be missing."""
    last_words = {key.rpartition(".")[2] for key in span.attributes}
    whole: list[Observation] = []
    for seen in observations:
        match seen:
            case ToolsOffered():
                continue
            case ModelCall(ending="empty"):
                whole.append(replace(seen, ending=None))
            case CallRequested(arguments=Recorded(dict() as given)) | CallExecuted(arguments=Recorded(dict() as given)):
                if not given:
                    # Some dialects read an empty object where a call has no attribute for its arguments.
                    whole.append(replace(seen, arguments=NOT_RECORDED))
                elif last_words.isdisjoint(name.rpartition(".")[2] for name in given):
                    whole.append(seen)
                else:
                    # Arguments with one attribute each; an attribute that holds all of them is whole.
                    whole.append(replace(seen, arguments=Unparsed(json.dumps(given), "truncated")))
            case _:
                whole.append(seen)
    return whole


PROVIDER, INSTRUCTIONS = "gen_ai.provider.name", "gen_ai.system_instructions"
_REQUEST, _PROMPT_NAME, _PROMPT_VERSION = "gen_ai.request.", "gen_ai.prompt.name", "gen_ai.prompt.version"
_NAMES: tuple[RunProperty, ...] = get_args(RunProperty)
_SETTINGS = [name.removeprefix(_REQUEST) for name in _NAMES if name.startswith(_REQUEST) and name != REQUEST_MODEL]
# By attribute; where several name one property, the first in this order counts.
_PROPERTIES: Mapping[str, str] = {
    **{name: name for name in _NAMES},
    "gen_ai.system": PROVIDER,
    # OpenInference.
    "llm.request.model_name": REQUEST_MODEL,
    "llm.response.model_name": RESPONSE_MODEL,
    "llm.model_name": RESPONSE_MODEL,
    "llm.provider": PROVIDER,
    "llm.system": PROVIDER,
    "llm.prompt_template.version": _PROMPT_VERSION,
    # Vercel, Langfuse, LangSmith, LiteLLM, Traceloop, VoltAgent, and the coding agents.
    "ai.model.id": REQUEST_MODEL,
    "ai.response.model": RESPONSE_MODEL,
    "ai.model.provider": PROVIDER,
    "langfuse.observation.model.name": REQUEST_MODEL,
    "langfuse.observation.prompt.name": _PROMPT_NAME,
    "langfuse.observation.prompt.version": _PROMPT_VERSION,
    "langsmith.metadata.ls_model_name": REQUEST_MODEL,
    "langsmith.metadata.ls_provider": PROVIDER,
    "traceloop.prompt.key": _PROMPT_NAME,
    "traceloop.prompt.version": _PROMPT_VERSION,
    "llm.model": REQUEST_MODEL,
    "model": REQUEST_MODEL,
}
# JSON texts with the settings of a request, among other things.
_PARAMETERS = ("llm.invocation_parameters", "langfuse.observation.model.parameters")
# OpenLIT, OpenInference, Logfire, LiteLLM, Claude Code; else the sum of the parts counts.
_COSTS = ("gen_ai.usage.cost", "gen_ai.usage.cost.total", "llm.cost.total", "operation.cost", "gen_ai.cost.total_cost", "cost_usd")  # fmt: skip
_COST_PARTS = ("gen_ai.usage.cost.input", "gen_ai.usage.cost.output", "llm.cost.prompt", "llm.cost.completion")
_ANY_COST = frozenset((*_COSTS, *_COST_PARTS))
_HIGHEST_COST = 1e6
# The sums of all model calls on the span of an agent run.
_SUMS: Keys = (
    ("llm.token_count.prompt", "ai.usage.inputTokens", "ai.usage.promptTokens", *TOKEN_KEYS[0]),
    ("llm.token_count.completion", "ai.usage.outputTokens", "ai.usage.completionTokens", *TOKEN_KEYS[1]),
)
_ANY_SUM = frozenset((*_SUMS[0], *_SUMS[1]))
_LOOKED_FOR = frozenset((*_PROPERTIES, *_PARAMETERS, *_ANY_COST))
_TEXT, _LONGEST_TEXT = frozenset((str,)), 65_536


def properties(attributes: Mapping[str, Value], observations: Sequence[Observation]) -> PropertiesSeen | None:
    """Return the properties of a run that the record of an agent run or a model call has; `None` without any."""
    for seen in observations:
        if type(seen) is ModelCall or type(seen) is AgentRun:
            break
    else:
        return None
    present = _LOOKED_FOR.intersection(attributes)
    is_summed = type(seen) is AgentRun and not _ANY_SUM.isdisjoint(attributes)
    sums = model_call(attributes, keys=_SUMS) if is_summed else None
    # Not the cost: it differs between calls, and equal properties are remembered once.
    costs = present & _ANY_COST
    keys = present - costs if costs else present
    written = [*map(attributes.get, keys)]
    # The messages of instructions may be a list, and any text may be too long to be remembered.
    if not _TEXT.issuperset(map(type, written)) or max(map(len, cast("list[str]", written)), default=0) > _LONGEST_TEXT:
        for place, (key, value) in enumerate(zip(keys, written, strict=True)):
            if len(value) > _LONGEST_TEXT if isinstance(value, str) else isinstance(value, (list, dict)):
                written[place] = short_hash(str(value)) if key == INSTRUCTIONS else None
    named = _named(tuple(keys), *cast("list[Hashable]", written)) if written else None
    if not costs and (sums is None or (sums.input_tokens is None and sums.output_tokens is None)):
        return named
    counted = {key: attributes.get(key) for key in costs}
    known = {key: value for key, value in counted.items() if isinstance(value, int | float) and type(value) is not bool}
    cost = next((known[key] for key in _COSTS if key in known), sum(known.values()))
    return PropertiesSeen(
        values=() if named is None else named.values,
        # Producers write 0 for models whose price they do not know.
        cost=float(cost) if 0 < cost <= _HIGHEST_COST else None,
        input_tokens=None if sums is None else sums.input_tokens,
        output_tokens=None if sums is None else sums.output_tokens,
    )


# Without it, reading a model's span takes 10 % more CPU.
@lru_cache(maxsize=128)
def _named(keys: tuple[str, ...], *written: Value) -> PropertiesSeen | None:
    found: dict[str, str] = {}
    given = dict(zip(keys, written, strict=True))
    for key, name in _PROPERTIES.items():
        value = given.get(key)
        if isinstance(value, bool | int | float | str) and value != "" and name not in found:
            found[name] = short_hash(str(value)) if name == INSTRUCTIONS else fit_label(str(value))[:MAX_PROPERTY]
    for key in _PARAMETERS:
        parameters = values.decoded_object(given.get(key))
        for setting in _SETTINGS:
            if isinstance(value := parameters.get(setting), int | float | str) and value != "":
                found.setdefault(_REQUEST + setting, fit_label(str(value))[:MAX_PROPERTY])
    return PropertiesSeen(values=tuple(found.items())) if found else None

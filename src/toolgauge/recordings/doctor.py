"""Lists the facts missing from each producer's spans, the settings that record them, and the evaluators that need them."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import escape

import yaml

from toolgauge.model.json import Json, JsonObject
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import Trajectory
from toolgauge.recognize.mapped_dialect import SpanMapping
from toolgauge.recognize.shortfalls import Fact, Producer, Remedy, Shortfall, Shortfalls, counts_of, remedy
from toolgauge.recordings.producer_counts import ProducerCounts, Tally, producer_head, producer_object
from toolgauge.report.terminal import PLAIN, Style, counted, shortened
from toolgauge.score.error_texts import error_beginning, with_error_texts

_NAME_LENGTH, _MAX_UNREAD_LINES = 200, 10
_MAX_BEGINNINGS = 5
_CHANGING = re.compile(r"(?<![\d.])\d{3,}|(?<![0-9a-f])(?=[a-f]*\d)[0-9a-f]{8,}", re.IGNORECASE)
# The evaluators that score, or ask a judge, with a fact and not without it.
_NEEDED_BY: Mapping[str, Sequence[str]] = {
    fact: names.split()
    for fact, names in {
        "calls": """
            adk.tool_parameter_match adk.tool_trajectory agentevals.trajectory_match arguments_schema bfcl.ast coverage
            data_flow deepeval.argument_correctness deepeval.tool_correctness error_handling faithfulness
            grounded_arguments known_tool one_effect order_rules output_judge policy ragas.tool_call_accuracy
            ragas.tool_call_f1 repeated_calls run_completed strands.any_order_match_scorer strands.exact_match_scorer strands.faithfulness
            strands.in_order_match_scorer strands.tool_called strands.tool_parameter_accuracy
            strands.tool_selection_accuracy strands.trajectory_judge tool_call_accuracy tool_call_args tool_call_count
            tool_call_f1 tool_call_order tool_call_output tool_contract tool_parameter_accuracy tool_parameter_match
            tool_selection_accuracy tool_success tool_trajectory tool_use trajectory_judge uipath.tool_call_args
            uipath.tool_call_count uipath.tool_call_order uipath.tool_call_output
        """,
        "arguments": """
            adk.tool_parameter_match adk.tool_trajectory agentevals.trajectory_match arguments_schema bfcl.ast data_flow
            grounded_arguments one_effect ragas.tool_call_accuracy ragas.tool_call_f1 repeated_calls
            tool_call_accuracy tool_call_args tool_call_f1 tool_parameter_accuracy tool_parameter_match tool_trajectory
            uipath.tool_call_args
        """,
        "results": "data_flow grounded_answer grounded_arguments tool_call_output uipath.tool_call_output",
        "tool_definitions": "arguments_schema honest_answer known_tool",
        "user_text": "tool_parameter_accuracy tool_selection_accuracy",
    }.items()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One producer: its records and the facts it leaves out."""

    producer: Producer
    sent: ProducerCounts
    calls: int
    missing: tuple[Shortfall, ...]
    # The one name of all its tools, which no model was offered; and its executed calls in traces without the request.
    shared_name: str | None = None
    lone_calls: int = 0
    # Whether spans from which nothing was read may hold calls: their traces show no call, message or run.
    may_hold_calls: bool = False

    @property
    def has_problems(self) -> bool:
        """Return whether calls cannot be judged because of this producer."""
        return self.shared_name is not None or any(missing.is_problem for missing in self.missing)


class Doctor:
    """Takes the trajectories of a recording, and diagnoses its producers at the end."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._shortfalls = Shortfalls()
        # Trajectories with calls, and trajectories with a sign that some of their spans went elsewhere.
        self.with_calls = 0
        self.split = 0
        # Runs below a span that failed and never ended.
        self.without_parent = 0
        # The names of tools on offer, by service.
        self._offered = defaultdict[str, set[str]](set)
        # The producers in traces that show a call, a message or a run.
        self._shown: set[Producer] = set()

    def add(self, trajectory: Trajectory) -> None:
        """Take one trajectory, once the spans of its trace have been read."""
        is_split = trajectory.split_sign is not None
        self.split += is_split
        self.without_parent += trajectory.closed_because == "parent_missing"
        self.with_calls += is_split or bool(trajectory.calls)
        self._tally.unread_tools.add(trajectory)
        trace = counts_of(trajectory)
        self._shortfalls.add(trajectory, trace)

        def sent_by(span: SpanRef | None) -> ProducerCounts:
            producer = trace.producer(span)
            return (producer and self._tally.producers.get(producer)) or ProducerCounts()

        for step in trajectory.code_steps:
            sent_by(step.span).code_steps += 1
        for service in {producer.service for producer in trace.spans.values()}:
            self._offered[service].update(tool.name for tool in trajectory.tools_offered or ())
        texts = with_error_texts(trajectory)
        for call in trajectory.calls:
            ran = sent_by(call.executed_by)
            ran.names[call.name] += 1
            ran.lone += len(trace.spans) == 1
            ran.without_run += not trace.runs
            sent_by(call.span).failed_code_steps += call.kind == "code"
            if call.order in texts.kinds:
                sent = sent_by(call.executed_by or call.span)
                sent.reported_errors["pass" if call.order in texts.shown else "fail"] += 1
                if call.order in texts.shown and (beginning := error_beginning(call.result)) is not None:
                    sent.error_beginnings[beginning] += 1
        waiting = Counter([call.run for call in trajectory.calls if call.state == "requested_only"])
        for call in trajectory.calls if waiting else ():
            is_unasked = call.kind == "tool" and call.requested_by is None and call.executed_by is not None
            if is_unasked and waiting[call.run] > 0 and trace.producer(call.executed_by) is not None:
                waiting[call.run] -= 1
                sent_by(call.executed_by).doubled_calls += 1
        # Spans from which nothing was read are in no trajectory.
        unread = [one for one, sent in self._tally.producers.items() if trajectory.trace_id in sent.unread_traces]
        for producer in unread:
            self._tally.producers[producer].unread_traces.remove(trajectory.trace_id)
        if trace.runs or trajectory.calls or trajectory.messages:
            self._shown.update(trace.spans.values(), unread)

    def diagnoses(self) -> Iterator[Diagnosis]:
        """Yield one diagnosis a producer, sorted."""
        for producer, sent in sorted(self._tally.producers.items(), key=lambda entry: entry[0]):
            calls = self._shortfalls.calls(producer)
            missing = list(self._shortfalls.of(producer, sent.dialects, sent.without_trace))
            if sent.named_by_id:
                found = remedy("agent_name", producer, sent.dialects)
                missing.append(
                    Shortfall(
                        fact="agent_name", count=sent.named_by_id, of=sent.agent_runs, unit="agent runs", remedy=found
                    )
                )
            # The calls that no trace joins to their requests; one alone may be a request by hand.
            lone_calls = sent.lone if sent.lone > 1 else 0
            if producer.service in self._tally.services_with_runs:
                lone_calls = sent.without_run
            # The only name of several calls where models of the service were offered tools of other names.
            names, offered = sent.names, self._offered[producer.service]
            is_shared = len(names) == 1 and names.total() > 1 and offered and offered.isdisjoint(names)
            yield Diagnosis(
                producer=producer,
                sent=sent,
                calls=calls,
                missing=tuple(missing),
                shared_name=next(iter(names)) if is_shared else None,
                lone_calls=lone_calls,
                may_hold_calls=bool(sent.unread) and producer not in self._shown,
            )


def not_evaluated(fact: Fact) -> Sequence[str]:
    """Return the evaluators that cannot judge without a fact."""
    return _NEEDED_BY.get(fact, ())


def diagnosis_object(diagnosis: Diagnosis) -> JsonObject:
    """Describe one producer for `doctor --json`."""
    found: JsonObject = {
        **producer_object(diagnosis.producer),
        "dialects": [dialect for dialect, _ in diagnosis.sent.dialects.most_common()],
        "spans": diagnosis.sent.spans,
        "log_records": diagnosis.sent.log_records,
        "calls": diagnosis.calls,
        "ok": not diagnosis.has_problems,
        "missing": [
            {
                "what": missing.fact,
                "grade": "problem" if missing.is_problem else "note",
                "count": missing.count,
                "of": missing.of,
                "unit": missing.unit,
                "never_recorded": missing.remedy.never,
                "switches": list(missing.remedy.switches),
                "advice": missing.remedy.how,
                "not_evaluated": list(not_evaluated(missing.fact)),
                "cost": missing.cost,
            }
            for missing in diagnosis.missing
        ],
    }
    sent, errors = diagnosis.sent, diagnosis.sent.reported_errors
    has_passing = bool(errors.get("pass"))
    unread: Json = [
        {"name": name, "operation": operation or None, "spans": count}
        for (name, operation), count in sent.unread.most_common(_MAX_UNREAD_LINES)
    ]
    where_found: JsonObject = {
        "unread": unread if diagnosis.may_hold_calls else None,
        "dialects_to_paste": _simple_dialect(diagnosis) if sent.mappings else None,
        "shared_name": diagnosis.shared_name,
        "lone_calls": diagnosis.lone_calls or None,
        "cut_spans": sent.cut or None,
        "doubled_calls": sent.doubled_calls or None,
        "told_errors": {"results": sum(errors.values()), "failures": errors.get("fail", 0)} if has_passing else None,
        "told_errors_to_paste": _failures(sent) if has_passing else None,
        "code_steps": sent.code_steps or None,
        "failed_code_steps": sent.failed_code_steps if sent.code_steps else None,
    }
    return found | {name: value for name, value in where_found.items() if value is not None}


def diagnosis_lines(diagnosis: Diagnosis, style: Style = PLAIN) -> Iterator[str]:
    """Describe one producer for a person: its name, its dialects, then the missing facts."""
    producer, sent = diagnosis.producer, diagnosis.sent
    yield style.head(producer_head(producer))
    dialects = ", ".join(dialect for dialect, _ in sent.dialects.most_common())
    records = f", {sent.log_records} log records" if sent.log_records else ""
    language = f"{producer.language}; " if producer.language else ""
    yield f"  {language}dialect {dialects}: {sent.spans} spans{records}, {counted(diagnosis.calls, 'call')}"
    if sent.code_steps:
        steps, failed = counted(sent.code_steps, "step"), sent.failed_code_steps
        yield f"  {style.doubtful('note')}: a code agent: {steps} wrote code, {failed} of them failed by their own code"
        yield "    calls inside the code show only where their tools have spans; all other calls are unknown"
        yield "    judged: each failed step, as a call of kind `code`, by `tool_success`; each call with a span, by every evaluator"
    # One switch mostly governs several facts: they are listed together.
    alike: dict[tuple[bool, Remedy], list[Shortfall]] = {}
    for missing in diagnosis.missing:
        alike.setdefault((missing.is_problem, missing.remedy), []).append(missing)
    for (is_problem, shared), group in alike.items():
        word = style.bad("problem") if is_problem else style.doubtful("note")
        never = "; never recorded by this producer" if shared.never else ""
        yield f"  {word}: {', '.join(missing.what for missing in group)}{never}"
        # Where no call is seen, its missing parts are not listed.
        for missing in group[:1] if group[0].fact == "calls" else group:
            named = ", ".join(f"`{name}`" for name in not_evaluated(missing.fact))
            yield f"    {missing.cost}{f'; not evaluated: {named}' if named else ''}"
        yield f"    {'instead' if shared.never else 'do'}: {shared.how}"
    doubts = tuple(_reading_lines(diagnosis, style))
    yield from doubts
    if diagnosis.may_hold_calls:
        # The calls may be on the spans from which nothing was read.
        spans, name = counted(sent.unread.total(), "span"), shortened(producer.scope or "(no scope)", _NAME_LENGTH)
        yield f"  {style.doubtful('note')}: no tool call; nothing was read from {spans} of scope `{name}`:"
        for (name, operation), count in sent.unread.most_common(_MAX_UNREAD_LINES):
            named = f"operation `{shortened(operation, _NAME_LENGTH)}`" if operation else "no `gen_ai.operation.name`"
            yield f"    {count} `{shortened(name, _NAME_LENGTH)}`, {named}"
        if len(sent.unread) > _MAX_UNREAD_LINES:
            yield f"    and {len(sent.unread) - _MAX_UNREAD_LINES} more names"
        yield "    do: if calls are on these spans, map their attributes in the section `dialects` of the configuration"
    elif not diagnosis.missing and not doubts:
        yield f"  {style.good('nothing is missing')}" if diagnosis.calls else "  no tool call: nothing to judge"


def _reading_lines(diagnosis: Diagnosis, style: Style) -> Iterator[str]:
    """Describe doubts about the calls of a producer that no missing fact explains."""
    if diagnosis.shared_name is not None:
        name = shortened(diagnosis.shared_name, _NAME_LENGTH)
        yield f"  {style.bad('problem')}: all its calls are called `{name}`, a name that no model was offered"
        yield "    do: update the instrumentation, or record the tool's own name as `gen_ai.tool.name` on its span"
    if diagnosis.lone_calls:
        calls = counted(diagnosis.lone_calls, "call")
        yield f"  {style.doubtful('note')}: {calls} in traces without the model's request: spans are traces of their own"
        yield "    do: run models and tools inside the agent's span (propagate the context), so that a run is one trace"
    if diagnosis.sent.cut:
        spans = counted(diagnosis.sent.cut, "span")
        yield f"  {style.doubtful('note')}: {spans} from which the SDK dropped attributes or events: offers and histories are not whole"
        yield "    do: raise `OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT` and `OTEL_SPAN_EVENT_COUNT_LIMIT` (128) where the producer runs"
    if diagnosis.sent.doubled_calls:
        calls = counted(diagnosis.sent.doubled_calls, "call")
        yield f"  {style.doubtful('note')}: {calls} that no model asked for, beside as many in the same runs that nothing ran"
        yield "    most likely the same calls: two names, other arguments and no id keep them apart, so that each counts twice"
        yield "    do: record the id of the model's call as `gen_ai.tool.call.id` on the tool's span"
    errors = diagnosis.sent.reported_errors
    if errors.get("pass"):
        results, failures = sum(errors.values()), errors.get("fail", 0)
        yield f"  {style.doubtful('note')}: {counted(results, 'result')} read like errors, {failures} are counted as failures"
        yield "    do: where the others are failures too, put this line into the configuration; `toolgauge learn` proposes more"
        yield f"    {yaml.safe_dump(_failures(diagnosis.sent), default_flow_style=True, width=1000, sort_keys=False).strip()}"  # pyright: ignore[reportUnknownMemberType] - in newer stubs
    if diagnosis.sent.mappings:
        yield f"  {style.doubtful('note')}: no dialect knows this producer; read by what its values look like, whatever their keys"
        yield "    do: check these lines and put them into the configuration, which makes the reading firm"
        yield from (f"    {line}" for line in yaml.safe_dump(_simple_dialect(diagnosis), sort_keys=False).splitlines())  # pyright: ignore[reportUnknownMemberType] - in newer stubs


def _failures(sent: ProducerCounts) -> JsonObject:
    """Write how the error texts begin that fail nothing as a contract of all tools."""
    beginnings = [beginning for beginning, _ in sent.error_beginnings.most_common(_MAX_BEGINNINGS)]
    match: list[Json] = [f"{escape(beginning)}*" for beginning in beginnings or ("Error: ",)]
    return {"tools": {"*": {"fails_when": {"text": match}}}}


def _simple_dialect(diagnosis: Diagnosis) -> JsonObject:
    """Write what the generic dialect went by as the section `dialects` of the configuration."""
    # The number of a process, or an id, is another one at the next start.
    scope = _CHANGING.split(diagnosis.producer.scope)[0].rstrip("-_.:/# ")
    name = re.sub(r"[^a-z0-9]+", "_", scope.lower()).strip("_")
    # Without a scope, spans are found by an attribute alone.
    found = [mapping for mapping in diagnosis.sent.mappings if scope or mapping.found_by is not None]
    # One mapping for all spans that are found alike: each may lack what another has.
    merged: dict[str, SpanMapping] = {}
    for mapping in found:
        key = repr((mapping.match, mapping.reads, mapping.event))
        known = merged.setdefault(key, mapping)
        merged[key] = known.model_copy(
            update={name: value for name, value in mapping if value and not getattr(known, name)}
        )
    # Tools first: a model call often has the same keys.
    spans = sorted(merged.values(), key=lambda mapping: mapping.reads != "tool_call")
    written: JsonObject = {"scopes": [scope]} if scope else {}
    written["spans"] = [mapping.model_dump(mode="json", exclude_defaults=True) for mapping in spans]
    return {"dialects": {name if name[:1].isalpha() else "own": written}}

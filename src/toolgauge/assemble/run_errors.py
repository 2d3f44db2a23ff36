"""Finds the runs that ended with an error: by their own span, or by what their last model call was part of.

An error that a run got over is none of the run's: a model was asked again after it. Nor is an exception with which a
framework steers a run: a cancellation, an interrupt for a person, a hand-off, a guardrail that stopped an answer.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from toolgauge.assemble.approvals import not_executed
from toolgauge.assemble.node import Node, NodeIndex
from toolgauge.model.content import NOT_RECORDED
from toolgauge.model.observations import CallError
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import Run, ToolCall

# Classes without their modules. Python, .NET, the JVM, JavaScript and Go.
_CANCELLATIONS = frozenset(
    (
        *("CancelledError", "KeyboardInterrupt", "GeneratorExit", "StopIteration", "StopAsyncIteration"),
        *("OperationCanceledException", "TaskCanceledException", "CancellationException", "JobCancellationException"),
        *("InterruptedException", "AbortError", "ResponseAborted", "ClientDisconnect"),
        # As `error.type` of libraries without exceptions, and of gRPC.
        *("canceled", "cancelled", "Canceled", "Cancelled", "CANCELLED"),
    )
)
# A timeout may end its operation with one of these.
_TIMED_OUT = re.compile(r"time[sd]?[ _-]?out|deadline", re.IGNORECASE)
# LangGraph; OpenAI Agents.
_STEERING = frozenset(
    (
        *("ParentCommand", "GraphBubbleUp"),
        *("InputGuardrailTripwireTriggered", "OutputGuardrailTripwireTriggered"),
        *("ToolInputGuardrailTripwireTriggered", "ToolOutputGuardrailTripwireTriggered"),
    )
)
_MAX_TEXT = 600
_WORDS_ALONE = frozenset(("canceled", "cancelled"))
# A status without an exception event, which begins with the class or is the library's own words for a cancellation.
_CLASS = re.compile(r"(?:[A-Za-z_]\w{0,60}\.){0,8}([A-Z]\w{2,60})(?=\s*$|[(:])")
_WORDS = re.compile(
    r"Command\(graph=|Guardrail tripwire triggered\b"
    r"|(?:(?:rpc error: code = Canceled desc = )?context canceled|(?:This|The) operation was (?:aborted|cancel+ed)"
    r"|(?:The )?(?:run|request|task|stream) (?:was |has been )?(?:aborted|cancel+ed)(?: by (?:the )?(?:user|client|caller))?)\.?\s*$",
    re.IGNORECASE,
)


def with_errors(runs: Sequence[Run], whole: Node, index: NodeIndex, calls: Sequence[ToolCall]) -> Sequence[Run]:
    """Return the runs of one trace, the outermost ones with the errors that they ended with.

    `whole` stands for a trace in which no agent run was seen.
    """
    failed_ns = _ends_of_failures(calls)
    models = [node for node in index.nodes if node.model_call is not None]
    asked = max(models, key=lambda node: node.start_ns, default=None)
    failed = {
        node.ref: node.failure
        for node in index.failing
        if node.failure is not None and not _is_no_failure(node, node.failure, failed_ns, asked)
    }
    if not failed:
        return runs
    nodes = {node.ref: node for node in index.nodes}
    last_models = _last_models(index, whole)
    errors: dict[SpanRef, CallError] = {}
    passed: set[SpanRef] = set()
    outermost = [nodes.get(run.span, whole) for run in runs if run.above is None]
    # The latest first: what contains several runs failed with the last one.
    for run in sorted(outermost, key=lambda node: (node.until_ns, node.place), reverse=True):
        found: list[SpanRef] = []
        at: Node | None = last_models.get(run.ref, run)
        # From where a later run came by, all errors are that run's.
        while at is not None and at.ref not in passed:
            passed.add(at.ref)
            if at.ref in failed:
                found.append(at.ref)
            at = at.above
        if found:
            # A run's own words say most; else those of the innermost span.
            errors[run.ref] = failed[run.ref if run.ref in found else found[0]]
    return [replace(run, error=errors[run.span]) if run.span in errors else run for run in runs]


def _is_control_flow(error: CallError) -> bool:
    """Return whether the error is a framework's way to steer a run, or somebody's wish to end it."""
    if not_executed(error, NOT_RECORDED) is not None or _WORDS.match(error.message[:_MAX_TEXT]) is not None:
        return True
    raised = _CLASS.match(error.message, 0, _MAX_TEXT)
    # A bare word at the beginning of a message is no class: `Canceled: no such card`.
    named = raised[1] if raised is not None and raised[1].lower() not in _WORDS_ALONE else ""
    names = {error.kind.rpartition(".")[2], named}
    if names & _STEERING:
        return True
    return bool(names & _CANCELLATIONS) and _TIMED_OUT.search(error.message, 0, _MAX_TEXT) is None


def _ends_of_failures(calls: Sequence[ToolCall]) -> Mapping[str, int]:
    """Return when the last call that failed in the same words ended."""
    ends: dict[str, int] = {}
    for call in calls:
        if call.error is not None and call.error.message:
            words = _words(call.error)
            ends[words] = max(call.end_ns, ends.get(words, 0))
    return ends


def _words(error: CallError) -> str:
    """Return the message without the class that some producers write in front of it."""
    return error.message.removeprefix(f"{error.kind}: ").removeprefix(f"{error.kind.rpartition('.')[2]}: ")


def _is_no_failure(node: Node, failure: CallError, failed_ns: Mapping[str, int], asked: Node | None) -> bool:
    """Return whether the error ended no run; `asked` is the model call that began last."""
    if _is_control_flow(failure):
        return True
    # Rule: some producers copy the error of a tool to the spans around it. It is none of theirs where a model answered after it.
    ended_ns = failed_ns.get(_words(failure))
    if ended_ns is None:
        return False
    if node.model_call is not None:
        return _has_output(node)
    return asked is not None and asked.start_ns >= ended_ns and _has_output(asked) and not asked.requests


def _has_output(node: Node) -> bool:
    """Return whether anything shows that a model call ended with an output."""
    is_counted = node.model_call is not None and bool(node.model_call.output_tokens)
    return is_counted or bool(node.requests) or any(seen.role == "assistant" for seen in node.messages)


def _last_models(index: NodeIndex, whole: Node) -> Mapping[SpanRef, Node]:
    """Return the model call of each outermost run that ended last."""
    outermost: dict[SpanRef, Node | None] = {}
    last: dict[SpanRef, Node] = {}
    has_runs = bool(index.running)
    for node in index.nodes:
        run = _outermost(node, outermost) if has_runs else whole
        if node.model_call is not None and run is not None:
            known = last.get(run.ref)
            if known is None or node.until_ns >= known.until_ns:
                last[run.ref] = node
    return last


def _outermost(node: Node, known: dict[SpanRef, Node | None]) -> Node | None:
    """Return the outermost agent run that a span is part of; each span on the way is passed once."""
    path: list[Node] = []
    at: Node | None = node
    while at is not None and at.ref not in known:
        path.append(at)
        at = at.above
    found = known[at.ref] if at is not None else None
    for one in reversed(path):
        found = found if found is not None else one if one.agent_run is not None else None
        known[one.ref] = found
    return found

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

# Classes without their modules. Python, .NET, the JVM, JavaScript and Go; LangGraph; OpenAI Agents.
_CONTROL_FLOW = frozenset(
    (
        *("CancelledError", "KeyboardInterrupt", "GeneratorExit", "StopIteration", "StopAsyncIteration"),
        *("OperationCanceledException", "TaskCanceledException", "CancellationException", "JobCancellationException"),
        *("InterruptedException", "AbortError", "ResponseAborted", "ClientDisconnect"),
        *("ParentCommand", "GraphBubbleUp"),
        *("InputGuardrailTripwireTriggered", "OutputGuardrailTripwireTriggered"),
        *("ToolInputGuardrailTripwireTriggered", "ToolOutputGuardrailTripwireTriggered"),
    )
)
# As `error.type` of libraries without exceptions, and of gRPC.
_CANCELLED = ("canceled", "cancelled")
_MAX_TEXT = 600
# A status without an exception event, which begins with the class or is the library's own words for a cancellation.
_CLASS = re.compile(r"(?:[A-Za-z_]\w{0,60}\.){0,8}([A-Z]\w{2,60})(?=\s*$|[(:])")
_WORDS = re.compile(
    r"Command\(graph="
    r"|(?:(?:rpc error: code = Canceled desc = )?context canceled|(?:This|The) operation was (?:aborted|cancel+ed)"
    r"|(?:The )?(?:run|request|task|stream) (?:was |has been )?(?:aborted|cancel+ed)(?: by (?:the )?(?:user|client|caller))?)\.?\s*$",
    re.IGNORECASE,
)


def with_errors(runs: Sequence[Run], whole: Node, index: NodeIndex, calls: Sequence[ToolCall]) -> Sequence[Run]:
    """Return the runs of one trace, the outermost ones with the errors that they ended with.

    `whole` stands for a trace in which no agent run was seen.
    """
    failed_ns = _ends_of_failures(calls)
    asked_ns = max((node.start_ns for node in index.nodes if node.model_call is not None), default=None)
    failed = {
        node.ref: node.failure
        for node in index.failing
        if node.failure is not None and not _is_no_failure(node, node.failure, failed_ns, asked_ns)
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
    kind = error.kind.rpartition(".")[2]
    if kind in _CONTROL_FLOW or kind.lower() in _CANCELLED or not_executed(error, NOT_RECORDED) is not None:
        return True
    raised = _CLASS.match(error.message, 0, _MAX_TEXT)
    if raised is not None and raised[1] in _CONTROL_FLOW:
        return True
    return _WORDS.match(error.message[:_MAX_TEXT]) is not None


def _ends_of_failures(calls: Sequence[ToolCall]) -> Mapping[str, int]:
    """Return when the last call that failed with each message ended."""
    ends: dict[str, int] = {}
    for call in calls:
        if call.error is not None and call.error.message:
            ends[call.error.message] = max(call.end_ns, ends.get(call.error.message, 0))
    return ends


def _is_no_failure(node: Node, failure: CallError, failed_ns: Mapping[str, int], asked_ns: int | None) -> bool:
    """Return whether the error ended no run; `asked_ns` is when a model was asked last."""
    if _is_control_flow(failure):
        return True
    # Rule: some producers copy the error of a tool to the spans around it. It is the run's only if no model was asked after it.
    ended_ns = failed_ns.get(failure.message)
    if ended_ns is None:
        return False
    return node.model_call is not None or (asked_ns is not None and asked_ns >= ended_ns)


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

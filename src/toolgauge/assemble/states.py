"""Decides the state of a call, with its result and error.

A call is rejected only on evidence that somebody refused it: an error result, the producer's word, or an answer that says so. A
name that is missing from the recorded tools, and broken JSON in the arguments, are not evidence.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from toolgauge.assemble.approvals import NotExecuted, not_executed
from toolgauge.assemble.mcp_failures import mcp_failure, with_message
from toolgauge.assemble.node import Execution, Node, Request
from toolgauge.assemble.pairing import Pair
from toolgauge.assemble.rejections import Rejection, failure_in, misfits, rejection
from toolgauge.model.content import NOT_RECORDED, Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import JsonObject
from toolgauge.model.observations import INVALID_ARGUMENTS, OTHER_ERROR, CallAnswered, CallError
from toolgauge.model.trajectory import CallState

# A refusal says at once what it is; what comes later may be the answer of a tool that ran.
_MAX_TEXT = 300
# How Anthropic and OpenAI begin the ids of calls that they run themselves.
_PROVIDER_ID = re.compile(r"(?:srvtoolu|mcptoolu)_|(?:ws|fs|ci|ig|mcp)_[0-9a-f]{32}")


class Fate(Struct, frozen=True):
    """The state of a call. `error` is why its tool failed, or why it was rejected."""

    state: CallState
    result: Content
    error: CallError | None
    by_provider: bool = False


class Offers:
    """Which tools a model could choose from: those on its own span, else those in its agent run.

    What another agent was offered says nothing about this one.
    """

    def __init__(self, offering: Sequence[Node]) -> None:
        self._offering = offering
        # Only failed calls and those without a tool span ask.
        self._by_run: dict[tuple[str, int], dict[str, JsonObject | None]] | None = None
        # Every model call of a run repeats the offer, mostly as the very same object.
        self._known: dict[tuple[int, ...], dict[str, JsonObject | None]] = {}

    def schema(self, request: Request) -> JsonObject | None:
        """Return the schema of the requested tool's arguments, `None` when it was not recorded."""
        offered = self._of(request)
        return offered.get(request.name) if offered is not None else None

    def _of(self, request: Request) -> dict[str, JsonObject | None] | None:
        if request.node.offers:
            return self._schemas(request.node)
        if self._by_run is None:
            self._by_run = self._offers_by_run()
        return self._by_run.get(_run(request.node))

    def _offers_by_run(self) -> dict[tuple[str, int], dict[str, JsonObject | None]]:
        by_run: dict[tuple[str, int], dict[str, JsonObject | None]] = {}
        newest: dict[tuple[str, int], dict[str, JsonObject | None]] = {}
        for node in self._offering:
            run, schemas = _run(node), self._schemas(node)
            if newest.get(run) is not schemas:
                newest[run] = schemas
                by_run.setdefault(run, {}).update(schemas)
        return by_run

    def _schemas(self, node: Node) -> dict[str, JsonObject | None]:
        key = tuple([id(offer.tools) for offer in node.offers])
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = {tool.name: tool.parameters for offer in node.offers for tool in offer.tools}
        return known


def fate(pair: Pair, answer: CallAnswered | None, offers: Offers, *, has_tool_spans: bool) -> Fate:
    """Return the state of the call; `has_tool_spans`: whether any call of its trace has one."""
    execution, request = pair.execution, pair.request
    if execution is None:
        if request is None:
            raise ValueError("a pair has at least one view")
        return _of_requested(request, answer, has_tool_spans=has_tool_spans)
    result, error = execution.result, execution.error
    stopped = not_executed(error, result)
    if answer is not None:
        answered = not_executed(answer.error, answer.result)
        if answered is not None:
            return _unexecuted(answered, answer.result, answer.error)
        if stopped == "paused":
            # A call that waited and was answered later, by a person or from outside.
            return Fate("executed", answer.result, answer.error)
        error = error or answer.error
        if error is None and type(result) is NotRecorded:
            result = answer.result
    if stopped is not None:
        return _unexecuted(stopped, result, error)
    answered_with = answer.result if answer is not None else NOT_RECORDED
    error = error or mcp_failure(result) or mcp_failure(answered_with)
    if error is None:
        return Fate("executed", result, None)
    shown = answered_with if isinstance(result, NotRecorded) else result
    error = with_message(error, shown)
    why = _turned_down(execution, request, error, shown, offers)
    return Fate("executed" if why is None else "rejected", result, error)


def _unexecuted(state: NotExecuted, result: Content, error: CallError | None) -> Fate:
    """Return a call that waits or was refused: it has no error, and the words of the refusal are its result."""
    words = Recorded(error.message) if error is not None and error.message else NOT_RECORDED
    return Fate(state, words if state == "refused" and type(result) is NotRecorded else result, None)


def _turned_down(
    execution: Execution, request: Request | None, error: CallError, answered: Content, offers: Offers
) -> Rejection | None:
    arguments = execution.arguments
    if request is not None:
        # Some producers write the only value of a call to the tool's span, in place of its arguments.
        if isinstance(arguments, (NotRecorded, Unparsed)) and not isinstance(request.arguments, NotRecorded):
            arguments = request.arguments
        if misfits(arguments, offers.schema(request)):
            return INVALID_ARGUMENTS
        if isinstance(request.arguments, Unparsed):
            arguments = request.arguments
    return rejection(execution.name, arguments, error, answered)


def _of_requested(request: Request, answer: CallAnswered | None, *, has_tool_spans: bool) -> Fate:
    answered = answer.result if answer is not None else NOT_RECORDED
    error = answer.error if answer is not None else None
    stopped = not_executed(error, answered)
    if stopped is not None:
        return _unexecuted(stopped, answered, error)
    # Tools that the model's provider runs have no spans.
    by_provider = request.by_provider or (answer is not None and answer.by_provider) or _has_provider_id(request)
    has_tool_spans = has_tool_spans and not by_provider
    error = error or mcp_failure(answered)
    if error is not None:
        error = with_message(error, answered)
    fault = _fault(request, answered, error or (None if answer is not None else _failure_around(request)))
    if fault is not None:
        return Fate("rejected", answered, fault)
    if error is None and not has_tool_spans:
        error = failure_in(answered)
    if error is not None:
        # Where tools have spans, one without is a tool that never ran.
        return Fate("rejected" if has_tool_spans else "executed", answered, error, by_provider)
    has_run = by_provider or answer is not None
    return Fate("executed" if has_run and not has_tool_spans else "requested_only", answered, None, by_provider)


def _has_provider_id(request: Request) -> bool:
    return request.call_id is not None and _PROVIDER_ID.match(request.call_id) is not None


def _fault(request: Request, answered: Content, error: CallError | None) -> CallError | None:
    """Return why a request without a tool span was rejected, `None` when nothing shows that it was."""
    if not request.usable:
        return CallError(kind=INVALID_ARGUMENTS, message=error.message if error else "the arguments cannot be parsed")
    # A framework that does not run the tool often says so in words alone.
    refusal = error or _refusal_in(answered)
    if refusal is None or (why := rejection(request.name, request.arguments, refusal, NOT_RECORDED)) is None:
        return None
    return CallError(kind=why, message=refusal.message)


def _failure_around(request: Request) -> CallError | None:
    """Return the error of the innermost span around an unanswered request that failed: it may name the tool it rejects.

    OpenAI Agents: `Tool not found: {'tool_name': 'get_forecast'}` on the turn.
    """
    node = request.node if request.node.failure is not None else request.node.branch.failed_above
    return node.failure if node is not None else None


def _refusal_in(answered: Content) -> CallError | None:
    text = answered.value if isinstance(answered, Recorded) else None
    return CallError(kind=OTHER_ERROR, message=text[:_MAX_TEXT]) if isinstance(text, str) else None


def _run(node: Node) -> tuple[str, int]:
    return (node.ref.trace_id, id(node.branch.inside))

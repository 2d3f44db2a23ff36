"""Builds the agent runs of a trajectory with their messages, offered tools and errors.

A call is judged by its own agent's conversation. An error ends a run only where no model was asked after it, and where no
framework raised it to steer the run: a cancellation, an interrupt for a person, a hand-off, a guardrail.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Literal, TypeAlias

from msgspec.structs import replace

from toolgauge.assemble.failures import not_executed
from toolgauge.assemble.node import Node, NodeIndex, Request
from toolgauge.assemble.repair import History
from toolgauge.model.content import NOT_RECORDED, Recorded, Unparsed
from toolgauge.model.json import JsonObject
from toolgauge.model.observations import CallError, CallRequested, MessageSeen, ToolDefinition, Tools
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import EarlierTurns, Message, Run, ToolCall

# LangGraph; OpenAI Agents.
_TRIPWIRES = [f"{side}GuardrailTripwireTriggered" for side in ("Input", "Output", "ToolInput", "ToolOutput")]
# The end of a stream or a client raises the others.
_STEERING = frozenset(
    ("ParentCommand", "GraphBubbleUp", "StopIteration", "StopAsyncIteration", "ClientDisconnect", *_TRIPWIRES)
)
_MAX_TEXT = 600
# A status without an exception event, which begins with the class.
_CLASS = re.compile(r"(?:[A-Za-z_]\w{0,60}\.){0,8}([A-Z]\w{2,60})(?=\s*$|[(:])")
_WORDS = re.compile(r"Command\(graph=|Guardrail tripwire triggered\b", re.IGNORECASE)
Role: TypeAlias = Literal["system", "user", "assistant"]
_Newest: TypeAlias = dict[Role, Collection[str]]
# The time of some texts, the run and the role that they belong to.
_Sight: TypeAlias = tuple[int, _Newest, Role, list[str]]
_time: Callable[[_Sight], int] = itemgetter(0)
_end: Callable[[Node], int] = attrgetter("until_ns")
_ending = attrgetter("model_call.ending")
Offer: TypeAlias = tuple[ToolDefinition, ...]


def messages_of(speaking: Sequence[Node], turns_ns: Sequence[int]) -> tuple[Message, ...]:
    """Return the messages in order of time. `speaking` nodes, and the turns that began at `turns_ns`, come in that order too."""
    sights: list[_Sight] = []
    by_run: dict[tuple[str, tuple[str, ...]], _Newest] = {}
    for node in speaking:
        newest = by_run.setdefault((node.ref.trace_id, node.branch.agents), {})
        by_role: dict[Role, list[str]] = {}
        for seen in node.messages:
            role = seen.role
            if role in by_role:
                by_role[role].append(seen.text)
            else:
                # A model reads its input at its start, and writes its output at its end.
                by_role[role] = texts = [seen.text]
                sights.append((node.until_ns if role == "assistant" else node.time_ns, newest, role, texts))
    messages: list[Message] = []
    # Model calls repeat prompts, runs their answer: a text is new when it differs from earlier texts of its role in its run.
    for time_ns, newest, role, texts in sorted(sights, key=_time):
        before = newest.get(role, ())
        if texts == before:
            continue
        turn = bisect_left(turns_ns, time_ns)
        # A single text, the usual case, is not hashed: it may be long.
        for text in dict.fromkeys(texts) if len(texts) > 1 else texts:
            if text not in before:
                messages.append(Message(role, text, turn, time_ns))  # noqa: PERF401 - a list of one costs more
        newest[role] = texts if len(texts) == 1 else frozenset(texts)
    return tuple(messages)


def has_beginning(speaking: Sequence[Node]) -> bool | None:
    """Return whether the first model call had nothing earlier in its input; `None` where inputs do not repeat it."""
    first: Node | None = None
    for node in speaking:
        if node.user is None or node.model_call is None:
            continue
        if first is None:
            first = node
            # Answers to calls of others: one trace a model call, a turn that continues.
            own = {request.call_id for request in node.requests}
            if node.user.follows or (node.is_primary and any(answer.call_id not in own for answer in node.answers)):
                return False
        # A model that is given answers to its calls has no need of the user's text, unless the input is all there is.
        if node.answers:
            return True
    return None


def earlier_turns(speaking: Sequence[Node], history: History) -> EarlierTurns | None:
    """Return the turns in the first model call's input; `None` where it may have been stripped of calls or results."""
    first = next((node for node in speaking if node.user is not None and node.model_call is not None), None)
    if first is None:
        return None
    answers = [answer for answer in first.answers if not answer.by_provider]
    results = [answer.result for answer in answers]
    are_whole = (type(one) is Recorded or (type(one) is Unparsed and one.reason != "truncated") for one in results)
    if not answers or not all(are_whole):
        return None
    past = history(first.ref.span_id)
    calls = [seen.call_id for seen in past if type(seen) is CallRequested]
    # Producers without ids give the answers in the order of the calls.
    if not calls or Counter(calls) != Counter(answer.call_id for answer in answers):
        return None
    texts = [seen.text for seen in past if type(seen) is MessageSeen]
    return EarlierTurns(tuple(texts), tuple(results))


def tools_on_offer(offering: Sequence[Node], run: Node | None = None) -> Tools | None:
    """Return all tools on offer, each once, with the first description and schema that was recorded."""
    # Every model call of a run repeats the offer, mostly as the very same object.
    offers: list[Offer] = []
    is_within_tool = run is not None and run.branch.tool_above is not None
    for node in offering:
        # The caller of the tool that started the run had another offer.
        for offer in node.offers if not is_within_tool or node.branch.outermost is not None else ():
            if not offers or (offer.tools is not offers[-1] and offer.tools != offers[-1]):
                offers.append(offer.tools)
    whole = Tools.of(offers[0]) if len(offers) == 1 else None
    if whole is not None and len(whole.by_name) == len(whole):
        return whole
    tools: dict[str, ToolDefinition] = {}
    for offered in offers:
        for tool in offered:
            known = tools.setdefault(tool.name, tool)
            if known is not tool and (known.description is None or known.parameters is None):
                description = known.description if known.description is not None else tool.description
                parameters = known.parameters if known.parameters is not None else tool.parameters
                tools[tool.name] = replace(known, description=description, parameters=parameters)
    return Tools(tools.values()) if offers else None


class Offers:
    """The tools that a model could choose from: on its own span, else in its agent run, never other agents' tools."""

    def __init__(self, offering: Sequence[Node]) -> None:
        self._offering = offering
        # Only failed calls and those without a tool span ask.
        self._by_run: dict[tuple[str, int], dict[str, JsonObject | None]] | None = None
        # Every model call of a run repeats the offer, mostly as the very same object.
        self._known: dict[tuple[int, ...], dict[str, JsonObject | None]] = {}

    def schema(self, request: Request) -> JsonObject | None:
        """Return the schema of the requested tool's arguments, `None` when it was not recorded."""
        if request.node.offers:
            return self._schemas(request.node).get(request.name)
        if self._by_run is None:
            self._by_run = {}
            newest: dict[tuple[str, int], dict[str, JsonObject | None]] = {}
            for node in self._offering:
                run, schemas = (node.ref.trace_id, id(node.branch.inside)), self._schemas(node)
                if newest.get(run) is not schemas:
                    newest[run] = schemas
                    self._by_run.setdefault(run, {}).update(schemas)
        return self._by_run.get((request.node.ref.trace_id, id(request.node.branch.inside)), {}).get(request.name)

    def _schemas(self, node: Node) -> dict[str, JsonObject | None]:
        key = tuple([id(offer.tools) for offer in node.offers])
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = {tool.name: tool.parameters for offer in node.offers for tool in offer.tools}
        return known


def runs_of(whole: Node, index: NodeIndex, tools: Offer | None, *, begins: bool | None) -> Sequence[Run]:
    """Return the runs of one trace with these `tools`, which `begins` or not; without agent runs it is one, that of `whole`."""
    if len(index.running) <= 1:
        tools = tools if whole.branch.tool_above is None else tools_on_offer(index.offering, whole)
        return (_run(whole, index.speaking, tools, begins=begins),)
    # By identity: hashing the names of spans would cost more than everything else here.
    by_run: dict[int, tuple[Node, list[Node]]] = {}
    for node in index.nodes:
        run = node.branch.outermost or whole
        known = by_run.get(id(run))
        if known is None:
            known = by_run[id(run)] = (run, [])
        known[1].append(node)
    runs: list[Run] = []
    inner: dict[SpanRef, list[Run]] = {}
    # The latest first: the text of an inner run is known when the turn of the outer one comes.
    for run, together in reversed(by_run.values()):
        # Spans outside of all runs are a run only where there is no other.
        if run.agent_run is None:
            continue
        speaking, offering = [node for node in together if node.messages], [node for node in together if node.offers]
        one = _run(run, speaking, tools_on_offer(offering, run), begins=has_beginning(speaking))
        within = inner.get(one.span)
        if within and one.prompt is None and one.response is None:
            # A workflow around agents has no text of its own: theirs is.
            asked = [each for each in within if each.prompt is not None]
            answering = [each for each in within if each.response is not None]
            first = min(asked, key=attrgetter("start_ns"), default=one)
            one = replace(
                one, prompt=first.prompt, response=max(answering, key=attrgetter("end_ns"), default=one).response
            )
        runs.append(one)
        if one.above is not None:
            inner.setdefault(one.above, []).append(one)
    return runs[::-1]


def _run(run: Node, speaking: Sequence[Node], tools: Offer | None, *, begins: bool | None) -> Run:
    outer = run.above.branch.outermost if run.above is not None else None
    return Run(
        span=run.ref,
        above=outer.ref if outer is not None else None,
        agent=run.agent_run.agent if run.agent_run is not None else None,
        prompt=_first_text([run, *speaking], "user"),
        response=_first_text([run, *sorted(speaking, key=_end, reverse=True)], "assistant"),
        tools_offered=tools,
        start_ns=run.start_ns,
        end_ns=run.end_ns,
        is_agent=run.agent_run is not None,
        has_history=begins is False,
    )


def _first_text(nodes: Sequence[Node], role: str) -> str | None:
    texts: list[str] = []
    for node in nodes:
        for seen in node.messages:
            if seen.role == role and seen.text:
                texts.append(seen.text)  # noqa: PERF401 - a list of one costs more
        if texts:
            return "\n".join(dict.fromkeys(texts) if len(texts) > 1 else texts)
    return None


def with_errors(runs: Sequence[Run], whole: Node, index: NodeIndex, calls: Sequence[ToolCall]) -> Sequence[Run]:
    """Return the runs of one trace, with the errors that ended the outermost; `whole` stands for a trace without runs."""
    # When the last call that failed in the same words ended.
    failed_ns: dict[str, int] = {}
    for call in calls:
        if call.error is not None and call.error.message:
            words = _words(call.error)
            failed_ns[words] = max(call.end_ns, failed_ns.get(words, 0))
    asked = max(index.models, key=lambda node: node.start_ns, default=None)
    failing = [(node, node.failure) for node in index.failing if node.failure is not None]
    failed = {node.ref: error for node, error in failing if _ends_run(node, error, failed_ns, asked)}
    if not failed:
        return runs
    nodes = {node.ref: node for node in index.nodes}
    last_models = _last_models(index, whole)
    errors: dict[SpanRef, CallError] = {}
    passed: set[SpanRef] = set()
    outermost = [nodes.get(run.span, whole) for run in runs if run.above is None]
    # The latest first: a span around several runs failed with the last one.
    for run in sorted(outermost, key=lambda node: (node.until_ns, node.place), reverse=True):
        found: list[SpanRef] = []
        at: Node | None = last_models.get(run.ref, run)
        # Above a span that a later run has passed, all errors belong to that run.
        while at is not None and at.ref not in passed:
            passed.add(at.ref)
            if at.ref in failed:
                found.append(at.ref)
            at = at.above
        if found:
            # The run's own words, else the innermost span's.
            errors[run.ref] = failed[run.ref if run.ref in found else found[0]]
    return [replace(run, error=errors[run.span]) if run.span in errors else run for run in runs]


def with_endings(runs: Sequence[Run], whole: Node, index: NodeIndex) -> Sequence[Run]:
    """Return the runs of one trace, with the endings of the last model output of the outermost."""
    if not any(map(_ending, index.models)):
        return runs
    nodes = {node.ref: node for node in index.nodes}
    # A span around a model call may have nothing of its own.
    around = {node.model_around.ref for node in index.models if node.model_around is not None}
    last_models = _last_models(index, whole, lambda node: node.ref not in around or _has_output(node))
    # Some producers write the newest text on the span of the run, whichever model call it is from.
    known = {seen.text for node in index.models for seen in node.messages if seen.role == "assistant"}
    found: list[Run] = []
    for run in runs:
        node = nodes.get(run.span, whole)
        last = last_models.get(node.ref) if run.above is None else None
        ending = None if last is None or last.model_call is None else last.model_call.ending
        # Rule: an answer is empty only where neither another view of the model call nor the run itself has one.
        if ending == "empty" and last is not None:
            own = [seen.text for seen in node.messages if seen.role == "assistant" and seen.text not in known]
            ending = None if own or last.requests or _has_text(last) else ending
        found.append(run if ending is None else replace(run, ending=ending))
    return found


def _has_text(node: Node) -> bool:
    return any(seen.role == "assistant" and not seen.text.isspace() for seen in node.messages)


def _words(error: CallError) -> str:
    """Return the message without the class that some producers write before it."""
    return error.message.removeprefix(f"{error.kind}: ").removeprefix(f"{error.kind.rpartition('.')[2]}: ")


def _ends_run(node: Node, failure: CallError, failed_ns: Mapping[str, int], asked: Node | None) -> bool:
    """Return whether the error ended a run; `asked` is the model call that began last."""
    message, kind = failure.message, failure.kind.rpartition(".")[2]
    if not_executed(failure, NOT_RECORDED) is not None or _WORDS.match(message[:_MAX_TEXT]) is not None:
        return False
    raised = _CLASS.match(message, 0, _MAX_TEXT)
    if kind in _STEERING or (raised is not None and raised[1] in _STEERING):
        return False
    # Rule: some producers copy the error of a tool to the spans around it. It is not theirs where a model answered after it.
    ended_ns = failed_ns.get(_words(failure))
    if ended_ns is None:
        return True
    if node.model_call is not None:
        return not _has_output(node)
    return asked is None or asked.start_ns < ended_ns or not _has_output(asked) or bool(asked.requests)


def _has_output(node: Node) -> bool:
    """Return whether anything shows that a model call ended with an output."""
    is_counted = node.model_call is not None and bool(node.model_call.output_tokens)
    return is_counted or bool(node.requests) or _has_text(node)


def _last_models(index: NodeIndex, whole: Node, counts: Callable[[Node], bool] = bool) -> Mapping[SpanRef, Node]:
    """Return the model call of each outermost run that ended last and `counts`."""
    last: dict[SpanRef, Node] = {}
    for node in index.models:
        run = node.branch.top_run or (node if node.agent_run is not None else None) if index.running else whole
        if run is not None and counts(node):
            known = last.get(run.ref)
            if known is None or node.until_ns >= known.until_ns:
                last[run.ref] = node
    return last

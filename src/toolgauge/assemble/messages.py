"""The messages of a trajectory and its agent runs: what each was asked and answered, and what it could choose from.

Whoever judges a call needs the conversation as that agent had it, and not what others said at the same time.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Literal, TypeAlias

from msgspec.structs import replace

from toolgauge.assemble.node import Node, NodeIndex
from toolgauge.assemble.offers import new_offers, tools_of
from toolgauge.assemble.repair import History
from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.observations import CallAnswered, CallRequested, MessageSeen
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import EarlierTurns, Message, Run

Role: TypeAlias = Literal["system", "user", "assistant"]
# What each role said last in one run.
_Newest: TypeAlias = dict[Role, Collection[str]]
# When, in which run, and what one role said there.
_Sight: TypeAlias = tuple[int, _Newest, Role, list[str]]
_time: Callable[[_Sight], int] = itemgetter(0)


def messages_of(speaking: Sequence[Node], turns_ns: Sequence[int]) -> tuple[Message, ...]:
    """Return the messages in order of time. `speaking` nodes, and the turns that began at `turns_ns`, come in that order too."""
    sights: list[_Sight] = []
    by_run: dict[tuple[str, tuple[str, ...]], _Newest] = {}
    _see(speaking, by_run, sights)
    messages: list[Message] = []
    # Every model call of a run repeats the system prompt and the newest user text, and the run repeats its last
    # answer; a text is new when it differs from what the same role said before it in the same run.
    for time_ns, newest, role, texts in sorted(sights, key=_time):
        before = newest.get(role, ())
        if texts == before:
            continue
        turn = bisect_left(turns_ns, time_ns)
        distinct = dict.fromkeys(texts) if len(texts) > 1 else texts
        messages += [Message(role, text, turn, time_ns) for text in distinct if text not in before]
        newest[role] = texts if len(texts) == 1 else frozenset(texts)
    return tuple(messages)


def has_beginning(speaking: Sequence[Node]) -> bool | None:
    """Return whether the first model call had nothing earlier in its input; `None` where inputs do not repeat it."""
    asked = _asked(speaking)
    first = _user_message(asked[0]) if asked else None
    if first is None:
        return None
    if first.follows or _has_earlier_answers(asked[0]):
        return False
    # A model that is given answers to its calls has no need of the user's text, unless the input is all there is.
    return True if any(node.answers for node in asked) else None


def earlier_turns(speaking: Sequence[Node], history: History) -> EarlierTurns | None:
    """Return the turns in the input of the first model call; `None` where it lacks the result of any of their calls.

    A history without calls may have been stripped of them.
    """
    asked = _asked(speaking)
    answers = [answer for answer in asked[0].answers if not answer.by_provider] if asked else []
    if not answers or not all(map(_has_result, answers)):
        return None
    past = history(asked[0].ref.span_id)
    calls = [seen.call_id for seen in past if type(seen) is CallRequested]
    # Producers without ids give the answers in the order of the calls.
    if not calls or Counter(calls) != Counter(answer.call_id for answer in answers):
        return None
    texts = [seen.text for seen in past if type(seen) is MessageSeen]
    return EarlierTurns(tuple(texts), tuple([answer.result for answer in answers]))


def _has_result(answer: CallAnswered) -> bool:
    result = answer.result
    return isinstance(result, Recorded) or (isinstance(result, Unparsed) and result.reason != "truncated")


def _asked(speaking: Sequence[Node]) -> list[Node]:
    return [node for node in speaking if node.model_call is not None and _user_message(node) is not None]


def _has_earlier_answers(node: Node) -> bool:
    """Return whether a model was given answers to calls that others asked for: one trace a model call, a turn that goes on."""
    if not node.is_primary or not node.answers:
        return False
    own = {request.call_id for request in node.requests}
    return any(answer.call_id not in own for answer in node.answers)


def _user_message(node: Node) -> MessageSeen | None:
    return next((seen for seen in node.messages if seen.role == "user"), None)


def _see(nodes: Iterable[Node], by_run: dict[tuple[str, tuple[str, ...]], _Newest], sights: list[_Sight]) -> None:
    """Add the messages of each role on each span: what a model reads is there at its start, what it writes at its end."""
    for node in nodes:
        newest = by_run.setdefault((node.ref.trace_id, node.branch.agents), {})
        by_role: dict[Role, list[str]] = {}
        for seen in node.messages:
            role = seen.role
            if role in by_role:
                by_role[role].append(seen.text)
            else:
                by_role[role] = texts = [seen.text]
                sights.append((node.until_ns if role == "assistant" else node.time_ns, newest, role, texts))


def runs_of(whole: Node, index: NodeIndex) -> Sequence[Run]:
    """Return the runs of one trace; without agent runs it is one, that of `whole`."""
    if len(index.running) <= 1:
        return ((_run(whole, index.speaking, index.offering)),)
    runs: list[Run] = []
    for run, together in _by_run(whole, index.nodes):
        # What was seen outside of all runs is no run where there are others.
        if run.agent_run is not None:
            speaking = [node for node in together if node.messages]
            offering = [node for node in together if node.offers]
            runs.append(_run(run, speaking, offering))
    return _with_text(runs)


def _by_run(whole: Node, nodes: Sequence[Node]) -> Iterable[tuple[Node, list[Node]]]:
    """Find out which span is of which run."""
    # By identity: hashing the names of spans would cost more than everything else here.
    by_run: dict[int, tuple[Node, list[Node]]] = {}
    for node in nodes:
        run = node.branch.outermost or whole
        known = by_run.get(id(run))
        if known is None:
            known = by_run[id(run)] = (run, [])
        known[1].append(node)
    return by_run.values()


def _run(run: Node, speaking: Sequence[Node], offering: Sequence[Node]) -> Run:
    outer = run.above.branch.outermost if run.above is not None else None
    if run.branch.tool_above is not None:
        # Whoever called the tool that started the run had another offer.
        offering = [node for node in offering if node.branch.outermost is not None]
    prompt, response = _text(run, "user"), _text(run, "assistant")
    if prompt is None:
        prompt = _first_text(speaking, "user")
    if response is None:
        response = _first_text((sorted(speaking, key=_latest)), "assistant")
    return Run(
        span=run.ref,
        above=outer.ref if outer is not None else None,
        agent=run.agent_run.agent if run.agent_run is not None else None,
        prompt=prompt,
        response=response,
        tools_offered=tools_of(new_offers(offering)),
        start_ns=run.start_ns,
        end_ns=run.end_ns,
        is_agent=run.agent_run is not None,
        has_history=has_beginning(speaking) is False,
    )


def _with_text(runs: Sequence[Run]) -> list[Run]:
    inner: dict[SpanRef, list[Run]] = {}
    index: list[Run] = []
    # The latest first: what a run within another says is known when the other's turn comes.
    for run in reversed(runs):
        one = _with_text_of(run, inner.get(run.span, ()))
        index.append(one)
        if one.above is not None:
            inner.setdefault(one.above, []).append(one)
    return index[::-1]


def _with_text_of(run: Run, inner: Sequence[Run]) -> Run:
    """Give a run without text of its own, a workflow around agents, the prompt and response of those within it."""
    if run.prompt is not None or run.response is not None or not inner:
        return run
    prompt = _first(one.prompt for one in sorted(inner, key=lambda one: one.start_ns))
    response = _first(one.response for one in sorted(inner, key=lambda one: one.end_ns, reverse=True))
    return replace(run, prompt=prompt, response=response)


def _latest(node: Node) -> int:
    """Sort what ends last first; among equals the earlier one stays first."""
    return -node.until_ns


def _first_text(nodes: Sequence[Node], role: str) -> str | None:
    for node in nodes:
        text = _text(node, role)
        if text is not None:
            return text
    return None


def _text(node: Node, role: str) -> str | None:
    if not node.messages:
        return None
    texts = [seen.text for seen in node.messages if seen.role == role and seen.text]
    if len(texts) > 1:
        texts = list(dict.fromkeys(texts))
    return "\n".join(texts) if texts else None


def _first(texts: Iterator[str | None]) -> str | None:
    return next((text for text in texts if text is not None), None)

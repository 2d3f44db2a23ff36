"""Tells the agent runs of a trace: what each was asked, what it answered, what it could choose from.

Who judges a call needs the conversation as that agent had it, and not what others said at the same time.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from toolgauge.assemble.node import Node
from toolgauge.assemble.told import Told
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import Run


def runs_of(whole: Node, told: Told) -> Sequence[Run]:
    """Return the runs of one trace; without agent runs it is one, that of `whole`."""
    if len(told.running) <= 1:
        return ((_run(whole, told.speaking, told.offering)),)
    runs: list[Run] = []
    for run, together in _told_apart(whole, told.nodes):
        # What was seen outside of all runs is no run where there are others.
        if run.agent_run is not None:
            speaking = [node for node in together if node.messages]
            offering = [node for node in together if node.offers]
            runs.append(_run(run, speaking, offering))
    return _with_words(runs)


def _told_apart(whole: Node, nodes: Sequence[Node]) -> Iterable[tuple[Node, list[Node]]]:
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
    prompt, response = _said(run, "user"), _said(run, "assistant")
    if prompt is None:
        prompt = _first_said(speaking, "user")
    if response is None:
        response = _first_said((sorted(speaking, key=_latest)), "assistant")
    return Run(
        span=run.ref,
        above=outer.ref if outer is not None else None,
        agent=run.agent_run.agent if run.agent_run is not None else None,
        prompt=prompt,
        response=response,
        tools_offered=_offered(offering),
        start_ns=run.start_ns,
        end_ns=run.end_ns,
    )


def _with_words(runs: Sequence[Run]) -> list[Run]:
    inner: dict[SpanRef, list[Run]] = {}
    told: list[Run] = []
    # The latest first: what a run within another says is known when the other's turn comes.
    for run in reversed(runs):
        one = _with_words_of(run, inner.get(run.span, ()))
        told.append(one)
        if one.above is not None:
            inner.setdefault(one.above, []).append(one)
    return told[::-1]


def _with_words_of(run: Run, inner: Sequence[Run]) -> Run:
    """Let a run that says nothing itself, a workflow around agents, say what those within it were asked and answered."""
    if run.prompt is not None or run.response is not None or not inner:
        return run
    prompt = _first(one.prompt for one in sorted(inner, key=lambda one: one.start_ns))
    response = _first(one.response for one in sorted(inner, key=lambda one: one.end_ns, reverse=True))
    return replace(run, prompt=prompt, response=response)


def _latest(node: Node) -> int:
    """Sort what ends last first; among equals the earlier one stays first."""
    return -node.until_ns


def _first_said(nodes: Sequence[Node], role: str) -> str | None:
    for node in nodes:
        said = _said(node, role)
        if said is not None:
            return said
    return None


def _said(node: Node, role: str) -> str | None:
    if not node.messages:
        return None
    texts = [seen.text for seen in node.messages if seen.role == role and seen.text]
    if len(texts) > 1:
        texts = list(dict.fromkeys(texts))
    return "\n".join(texts) if texts else None


def _first(texts: Iterator[str | None]) -> str | None:
    return next((text for text in texts if text is not None), None)


def _offered(nodes: Sequence[Node]) -> tuple[ToolDefinition, ...] | None:
    tools: dict[str, ToolDefinition] = {}
    newest: tuple[ToolDefinition, ...] | None = None
    for node in nodes:
        for offer in node.offers:
            # Every model call of a run repeats the offer.
            if offer.tools != newest:
                newest = offer.tools
                for tool in newest:
                    tools.setdefault(tool.name, tool)
    return tuple(tools.values()) if newest is not None else None

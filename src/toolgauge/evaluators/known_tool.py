"""`known_tool`: was the called tool on offer, or did the model invent it? Needs no reference."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar, TypeAlias

from rapidfuzz.distance import Levenshtein

from toolgauge.model.content import NOT_RECORDED
from toolgauge.model.expected import Expected
from toolgauge.model.outcomes import Level, NotEvaluated, Outcome, Scored
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import CASE_DIALECT, ToolCall, Trajectory
from toolgauge.score.criterion import hands_over
from toolgauge.score.recent_offers import REGISTERED, REMARKS
from toolgauge.score.selection import CallSelection, nothing_to_judge, shown, was_stopped

# Names this long are not names; the hint looks no further.
_COMPARED_LENGTH = 128
_COMPARED_NAMES = 1000
_CLOSE_ENOUGH = 0.5
# Tools of providers and frameworks that find further tools, and offers of whole servers.
_GROWS = re.compile(
    r"tool_search\b|tool_search_|(?:search_tools|ToolSearch|toolSearch|searchTools|mcp|mcp_toolset|namespace)$"
)
_Names: TypeAlias = Mapping[str, object] | None


class KnownTool(CallSelection):
    """1 for a call of a tool that was on offer, 0 for any other name.

    A call that was executed and answered, that the provider ran, or that a person was asked about proves that its tool exists:
    where its name is missing from the recorded offer, that offer is incomplete (`no_tool_offer`).
    """

    version: ClassVar[str] = "2"
    level: ClassVar[Level] = "call"
    needs_content: ClassVar[bool] = False
    binary: ClassVar[bool] = True

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002 (no reference needed)
        """Yield one outcome a call."""
        calls = self.calls(trajectory)
        if not calls:
            yield None, nothing_to_judge(trajectory)
            return
        offered = trajectory.tools_offered
        names: _Names = None if offered is None else {tool.name: None for tool in offered}
        remark = REMARKS[trajectory.offer_from]
        if names is None and trajectory.registered_tools:
            names, remark = trajectory.registered_tools, REGISTERED
        # The explanation of an offer from elsewhere differs.
        on_offer = None if remark else self._usual
        others: dict[tuple[str, str], Outcome] = {}
        evidence = _Evidence(trajectory, names or {})
        for call in calls:
            name = call.name
            if on_offer is not None and names is not None and name in names:
                yield call, on_offer.get(name) or on_offer.keep(name, _outcome(name, names, remark))
                continue
            proof = evidence.of(call) if names is not None and name not in names else ""
            verdict = others.get((name, proof))
            if verdict is None:
                verdict = others[name, proof] = _incomplete(name, proof) if proof else _outcome(name, names, remark)
            yield call, verdict


class _Evidence:
    """Shows that tools exist whose names are missing from the recorded offer."""

    def __init__(self, trajectory: Trajectory, offered: Mapping[str, object]) -> None:
        self._agents = trajectory.agents
        self._offered = offered

    def of(self, call: ToolCall) -> str:
        """Return the evidence that the tool exists, or may exist; "" where nothing shows it."""
        if call.by_provider:
            return "the model's provider ran it"
        if was_stopped(call):
            return "a person was asked about the call"
        # No span shows that a call of an offline case ran.
        is_answered = call.result != NOT_RECORDED or call.dialect != CASE_DIALECT
        if call.state == "executed" and call.error is None and is_answered:
            return "it was executed and answered"
        called = _letters(call.name)
        if called in self._agent_names or (hands_over(call.name) and called.endswith(self._agent_names)):
            return "it names an agent of this run"
        return self._growing

    @cached_property
    def _agent_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(filter(None, map(_letters, self._agents))))

    @cached_property
    def _growing(self) -> str:
        growing = next((name for name in self._offered if _GROWS.match(name)), None)
        return "" if growing is None else f"{shown(growing)} adds tools to the offer"


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name[:_COMPARED_LENGTH].casefold()))


def _incomplete(name: str, proof: str) -> NotEvaluated:
    explanation = f"{shown(name)} was not among the recorded tools on offer, but {proof}: the record is incomplete"
    return NotEvaluated(reason="no_tool_offer", explanation=explanation)


def _outcome(name: str, offered: _Names, remark: str) -> Outcome:
    if offered is None:
        return NotEvaluated(reason="no_tool_offer", explanation="the tools on offer were not recorded")
    if name in offered:
        return Scored(value=1.0, explanation=f"{shown(name)} was on offer{remark}")
    closest = _closest(name, tuple(offered))
    hint = f"; the closest on offer is {shown(closest)}" if closest is not None else ""
    return Scored(value=0.0, explanation=f"{shown(name)} was not among the {len(offered)} tools on offer{remark}{hint}")


def _closest(name: str, offered: Sequence[str]) -> str | None:
    wanted = name[:_COMPARED_LENGTH].casefold()
    best, best_similarity = None, _CLOSE_ENOUGH
    for candidate in offered[:_COMPARED_NAMES]:
        similarity = Levenshtein.normalized_similarity(wanted, candidate[:_COMPARED_LENGTH].casefold())
        # On a tie the first one offered stays, so that the hint is stable.
        if similarity > best_similarity or (best is None and similarity == best_similarity):
            best, best_similarity = candidate, similarity
    return best

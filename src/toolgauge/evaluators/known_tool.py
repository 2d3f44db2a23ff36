"""`known_tool`: was the called tool on offer, or did the model invent it? Needs no reference."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar

from rapidfuzz.distance import Levenshtein

from toolgauge.model.expected import Expected
from toolgauge.model.outcomes import Level, NotEvaluated, Outcome, Scored
from toolgauge.model.ports import Evaluation
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.criterion import hands_over
from toolgauge.score.selection import CallSelection, has_run_well, nothing_to_judge, shown, was_stopped
from toolgauge.score.tool_offers import Offer, RunOffers

# Names this long are not names; the hint looks no further.
_COMPARED_LENGTH = 128
_COMPARED_NAMES = 1000
_CLOSE_ENOUGH = 0.5
# Tools of providers and frameworks that find further tools, and offers of whole servers.
_GROWS = re.compile(
    r"tool_search\b|tool_search_|(?:search_tools|ToolSearch|toolSearch|searchTools|mcp|mcp_toolset|namespace)$"
)


class KnownTool(CallSelection):
    """1 for a call of a tool that its own agent run had on offer, 0 for any other name.

    A call that was executed and answered, that the provider ran, or that a person was asked about proves that its tool exists:
    where its name is missing from the recorded offer, that offer is incomplete (`no_tool_offer`).
    """

    version: ClassVar[str] = "3"
    level: ClassVar[Level] = "call"
    needs_content: ClassVar[bool] = False
    binary: ClassVar[bool] = True

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002 (no reference needed)
        """Yield one outcome a call."""
        calls = self.calls(trajectory)
        if not calls:
            yield None, nothing_to_judge(trajectory)
            return
        offers = RunOffers(trajectory)
        checks: dict[SpanRef | None, _Check] = {}
        for call in calls:
            check = checks.get(call.run)
            if check is None:
                check = checks[call.run] = _Check(next(iter(offers.of(call)), None), trajectory)
            # Own verdicts of offers from elsewhere, whose explanations differ.
            if check.is_own and call.name in check.names:
                yield call, self._usual.get(call.name) or self._usual.keep(call.name, check.verdict(call))
            else:
                yield call, check.verdict(call)


class _Check:
    """The offer that the calls of one run are compared with, and the outcomes found so far."""

    def __init__(self, offer: Offer | None, trajectory: Trajectory) -> None:
        self._offer = offer
        self.names: Mapping[str, object] = {} if offer is None else offer.tools
        self.is_own = offer is not None and not offer.remark
        self._evidence = _Evidence(trajectory, self.names)
        self._known: dict[tuple[str, str], Outcome] = {}

    def verdict(self, call: ToolCall) -> Outcome:
        """Judge a call; the same object for all calls that are judged alike."""
        name, offer = call.name, self._offer
        proof = self._evidence.of(call) if offer is not None and name not in self.names else ""
        verdict = self._known.get((name, proof))
        if verdict is None:
            verdict = self._known[name, proof] = _incomplete(name, proof) if proof else _outcome(name, offer)
        return verdict


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
        if has_run_well(call):
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


def _outcome(name: str, offer: Offer | None) -> Outcome:
    if offer is None:
        return NotEvaluated(reason="no_tool_offer", explanation="the tools on offer were not recorded")
    offered, remark = offer.tools, offer.remark
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

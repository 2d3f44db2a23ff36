"""`known_tool` and `tool_success`: was the called tool on offer, and did the call do its work? Neither needs a reference."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import ClassVar, Literal

from msgspec.structs import replace

from toolgauge import on_demand
from toolgauge.model.content import NotRecorded
from toolgauge.model.judging import Judged
from toolgauge.model.names import known_as
from toolgauge.model.observations import OTHER_ERROR, UNKNOWN_TOOL
from toolgauge.model.outcomes import ERROR_RULE, Difference, Level, NotEvaluated, Outcome, Scored, Side
from toolgauge.model.ports import Needs
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall, Trajectory, repaired_code
from toolgauge.score.contracts import ToolKinds
from toolgauge.score.error_texts import ERROR_OBJECT, ERROR_PAGE, ERROR_TEXT
from toolgauge.score.facts import Facts, FactsEvaluator
from toolgauge.score.selection import has_run_well, not_executed, nothing_to_judge, shown, was_stopped
from toolgauge.score.tool_offers import Offer

# Names this long are not names; the hint looks no further.
_COMPARED_LENGTH = 128
_COMPARED_NAMES = 1000
_CLOSE_ENOUGH = 0.5
# Tools of providers and frameworks that find further tools, and offers of whole servers.
_GROWS = re.compile(
    r"tool_search\b|tool_search_|(?:search_tools|ToolSearch|toolSearch|searchTools|mcp|mcp_toolset|namespace)$"
)


class KnownTool(FactsEvaluator):
    """1 for a call of a tool that its own agent run had on offer, 0 for any other name.

    A name that differs from one on offer only as servers of MCP, gateways and limits change names is that tool's.
    A call that was executed and answered, that the provider ran, or that a person was asked about proves that its tool exists:
    where its name is missing from the recorded offer, that offer is incomplete (`no_tool_offer`).
    """

    version: ClassVar[str] = "4"
    level: ClassVar[Level] = "call"
    needs: ClassVar[Needs] = Needs(reference="none", recent_offer=True, binary=True)
    judges_every_answer: ClassVar[bool] = True

    def outcomes(self, facts: Facts) -> Iterator[Judged]:
        """Yield one outcome a call."""
        trajectory = facts.trajectory
        calls = self.calls(trajectory)
        if not calls:
            yield None, nothing_to_judge(trajectory)
            return
        checks: dict[SpanRef | None, _Check] = {}
        for call in calls:
            check = checks.get(call.run)
            if check is None:
                check = checks[call.run] = _Check(next(iter(facts.offers.of(call)), None), trajectory, facts.kinds)
            if call.name in check.names:
                key = call.name + check.remark
                yield call, self._usual.get(key) or self._usual.keep(key, check.verdict(call))
            else:
                yield call, check.verdict(call)


class _Check:
    """The offer for the calls of one run, and the outcomes found so far."""

    def __init__(self, offer: Offer | None, trajectory: Trajectory, kinds: ToolKinds) -> None:
        self._offer, self._kinds = offer, kinds
        self.names: Mapping[str, object] = {} if offer is None else offer.tools
        self.remark = "" if offer is None else offer.remark
        self._agents = trajectory.agents
        self._known: dict[tuple[str, str, str | None], Outcome] = {}
        self._aliases: dict[str, str | None] = {}

    def verdict(self, call: ToolCall) -> Outcome:
        """Judge a call; the same object for all calls that are judged alike."""
        name, offer, alias, proof = call.name, self._offer, None, ""
        if offer is not None and name not in self.names:
            # The tool on offer that a server or a gateway calls so, unless the framework knew no such tool.
            if call.state != "rejected" or call.error is None or call.error.kind != UNKNOWN_TOOL:
                if name not in self._aliases:
                    self._aliases[name] = known_as(name, islice(self.names, _COMPARED_NAMES))
                alias = self._aliases[name]
            proof = self._proof(call) if alias is None else ""
        verdict = self._known.get((name, proof, alias))
        if verdict is None:
            verdict = self._known[name, proof, alias] = _offer_verdict(name, offer, proof, alias)
        return verdict

    def _proof(self, call: ToolCall) -> str:
        """Return the sign that a tool missing from the recorded offer exists, or may exist; "" without any."""
        if call.by_provider:
            return "the model's provider ran it"
        if call.state in ("paused", "refused"):
            return "a person was asked about the call"
        if call.state == "cancelled" and call.executed_by is not None:
            return "it was cancelled while it ran"
        if has_run_well(call):
            return "it was executed and answered"
        called, agents = _letters(call.name), tuple(one for one in map(_letters, self._agents) if one)
        if called in agents or (self._kinds.hands_over(call.name) and called.endswith(agents)):
            return "it names an agent of this run"
        growing = next((name for name in self.names if _GROWS.match(name)), None)
        return "" if growing is None else f"{shown(growing)} adds tools to the offer"


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name[:_COMPARED_LENGTH].casefold()))


def _offer_verdict(name: str, offer: Offer | None, proof: str, alias: str | None) -> Outcome:
    if offer is None:
        return NotEvaluated(reason="no_tool_offer", explanation="the tools on offer were not recorded")
    if alias is not None:
        return Scored(value=1.0, explanation=f"{shown(name)} was on offer as {shown(alias)}{offer.remark}")
    if proof:
        explanation = f"{shown(name)} was not among the recorded tools on offer, but {proof}: the record is incomplete"
        return NotEvaluated(reason="no_tool_offer", explanation=explanation)
    offered, remark = offer.tools, offer.remark
    if name in offered:
        return Scored(value=1.0, explanation=f"{shown(name)} was on offer{remark}")
    wanted = name[:_COMPARED_LENGTH].casefold()
    closest, best = None, _CLOSE_ENOUGH
    for candidate in islice(offered, _COMPARED_NAMES):
        similarity = on_demand.rapidfuzz.distance.Levenshtein.normalized_similarity(
            wanted, candidate[:_COMPARED_LENGTH].casefold()
        )
        # On a tie the first one offered stays, so that the hint is stable.
        if similarity > best or (closest is None and similarity == best):
            closest, best = candidate, similarity
    hint = f"; the closest on offer is {shown(closest)}" if closest is not None else ""
    return Scored(value=0.0, explanation=f"{shown(name)} was not among the {len(offered)} tools on offer{remark}{hint}")


_BY_RESULT = {
    ERROR_TEXT: ": all its answers in the run are errors",
    ERROR_OBJECT: ": its result reports an error",
    ERROR_PAGE: ": its answer is a page titled `Error NNN`",
}


class ToolSuccess(FactsEvaluator):
    """1 for a call that was executed without an error, 0 for one that failed or was rejected.

    A call that is known only from the model's request succeeded when an answer was seen; without one
    it is `results_not_recorded`. A call that waits for a person or was refused by one did not run
    (`not_executed`).

    A call whose result is an object that reports an error and holds nothing else failed, and so did a call whose answer is a
    page titled `Error NNN`. Calls of a tool that answered with an error text failed where it was called at least twice in the run
    and never worked.

    `retries: ignore` leaves out failed calls where the same agent called the same tool with success in a later turn;
    that success has the part `recovered_failures`, how many failures it made good. A failed step of a code agent is left
    out where the same agent ran the same cell with success in a later step.
    """

    version: ClassVar[str] = "5"
    level: ClassVar[Level] = "call"

    retries: Literal["count", "ignore"] = "count"

    @property
    def needs(self) -> Needs:
        """The needs of its parameters."""
        # One of the calls that were not seen may have made a failure good.
        return Needs(reference="none", recent_offer=True, whole=self.retries == "ignore", code=True, binary=True)

    def outcomes(self, facts: Facts) -> Iterator[Judged]:
        """Yield one outcome a call."""
        found, trajectory = facts.error_texts, facts.trajectory
        calls = self.calls(found.trajectory)
        if not calls:
            yield None, nothing_to_judge(trajectory)
        recorded = {} if found.trajectory is trajectory else {call.order: call for call in trajectory.calls}
        may_recover = self.retries == "ignore" and bool(facts.without_effect)
        recovered = facts.made_good(calls) if may_recover else {}
        repaired: Collection[int] = repaired_code(trajectory) if may_recover else ()
        recoveries: Mapping[int, int] = Counter([one.order for one in recovered.values()]) if recovered else {}
        # Most calls of a tool have the same outcome: one object a tool costs less to make, check and write.
        succeeded = self._usual
        for call in calls:
            order = call.order
            if order in recovered or order in repaired:
                continue
            is_marked = order in recoveries or order in found.shown
            if call.error is None and call.state == "executed" and not is_marked:
                yield recorded.get(order, call), succeeded.get(call.name) or succeeded.keep(call.name, _success(call))
                continue
            outcome = _success(call)
            if isinstance(outcome, Scored) and order in recoveries:
                failures = recoveries[order]
                after = f", after {failures} failed {'call' if failures == 1 else 'calls'} of it"
                explanation = outcome.explanation + after
                outcome = replace(outcome, explanation=explanation, parts={"recovered_failures": failures})
            elif isinstance(outcome, Scored) and is_marked:
                # Rule: a single error text, or one of a tool that worked in the run, is shown and fails nothing.
                explanation = f"{outcome.explanation}; its answer reads like an error"
                outcome = replace(outcome, explanation=explanation, parts={"error_text": 1})
            yield recorded.get(order, call), outcome


def _success(call: ToolCall) -> Outcome:
    if was_stopped(call):
        return not_executed(call)
    name = shown(call.name)
    if call.error is not None:
        how = "was rejected" if call.state == "rejected" else "failed"
        named = f" with {shown(call.error.kind)}" if call.error.kind not in ("", OTHER_ERROR) else ""
        kind = _BY_RESULT.get(call.error.kind, named)
        message = Difference(where=call.name, rule=ERROR_RULE, actual=Side(value=call.error.message))
        return Scored(value=0.0, explanation=f"{name} {how}{kind}", differences=(message,))
    if call.state == "rejected":
        return Scored(value=0.0, explanation=f"{name} was requested and never executed: it was rejected")
    if call.state == "executed":
        return Scored(value=1.0, explanation=f"{name} was executed without an error")
    if isinstance(call.result, NotRecorded):
        explanation = f"{name} was requested; no execution and no answer was seen"
        return NotEvaluated(reason="results_not_recorded", explanation=explanation)
    return Scored(value=1.0, explanation=f"{name} was answered without an error")

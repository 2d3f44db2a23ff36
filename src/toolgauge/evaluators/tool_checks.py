"""`known_tool`, `tool_success` and `tool_contract`: was the tool on offer, did the call work, and does it keep to the tool's contract?

None of them needs a reference. Contracts are in section `tools` of the configuration.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import ClassVar, Literal

from msgspec.structs import replace

from toolgauge import on_demand
from toolgauge.model.content import NotRecorded
from toolgauge.model.errors import SchemaError
from toolgauge.model.json import Json, Leaf
from toolgauge.model.judging import Judged
from toolgauge.model.names import known_as
from toolgauge.model.observations import OTHER_ERROR, UNKNOWN_TOOL
from toolgauge.model.outcomes import ERROR_RULE, Difference, Level, NotEvaluated, Outcome, Scored, Side
from toolgauge.model.ports import Needs
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall, Trajectory, repaired_code
from toolgauge.score.contracts import Contract, Requirement, ToolKinds
from toolgauge.score.error_texts import ERROR_OBJECT, ERROR_PAGE, ERROR_TEXT, FAILED_RESULT, failed_by, opened
from toolgauge.score.facts import Facts, FactsEvaluator
from toolgauge.score.origins.provenance import (
    MAX_DIFFERENCES,
    Broken,
    FromResults,
    ResultsOf,
    StaysWithin,
    Subject,
    Verdict,
    joined,
    unseen_part,
)
from toolgauge.score.patterns import Globs, Place, Step, read_path
from toolgauge.score.rules import Exact
from toolgauge.score.selection import (
    first_notes,
    has_run_well,
    has_taken_effect,
    hidden_calls,
    no_object,
    not_executed,
    nothing_to_judge,
    readable_arguments,
    recorded_result,
    shown,
    was_stopped,
)
from toolgauge.score.tool_offers import Offer
from toolgauge.score.tool_schemas import Steps, ToolSchema, complaint, difference, is_masked

# Names this long are not names; the hint looks no further.
_COMPARED_LENGTH, _COMPARED_NAMES = 128, 1000
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
                usual = self._usual.get(key)
                if usual is None:
                    explanation = f"{shown(call.name)} was on offer{check.remark}"
                    usual = self._usual.keep(key, Scored(value=1.0, explanation=explanation))
                yield call, usual
            else:
                yield call, check.verdict(call)


class _Check:
    """The offer for the calls of one run."""

    def __init__(self, offer: Offer | None, trajectory: Trajectory, kinds: ToolKinds) -> None:
        self._offer, self._kinds = offer, kinds
        self.names: Mapping[str, object] = {} if offer is None else offer.tools
        self.remark = "" if offer is None else offer.remark
        self._agents = trajectory.agents

    def verdict(self, call: ToolCall) -> Outcome:
        """Judge a call of a tool that is missing from the offer."""
        name, offer, alias = call.name, self._offer, None
        if offer is None:
            return _NO_OFFER
        # The tool on offer that a server or a gateway calls so, unless the framework knew no such tool.
        if call.state != "rejected" or call.error is None or call.error.kind != UNKNOWN_TOOL:
            alias = known_as(name, islice(self.names, _COMPARED_NAMES))
        return _offer_verdict(name, offer, self._proof(call) if alias is None else "", alias)

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
        called, (agents, growing) = _letters(call.name), self._signs
        is_agent = called in agents or (self._kinds.hands_over(call.name) and called.endswith(agents))
        return "it names an agent of this run" if is_agent else growing

    @cached_property
    def _signs(self) -> tuple[tuple[str, ...], str]:
        growing = next((name for name in self.names if _GROWS.match(name)), None)
        agents = tuple(dict.fromkeys([letters for one in self._agents if (letters := _letters(one))]))
        return agents, "" if growing is None else f"{shown(growing)} adds tools to the offer"


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name[:_COMPARED_LENGTH].casefold()))


_NO_OFFER = NotEvaluated(reason="no_tool_offer", explanation="the tools on offer were not recorded")


def _offer_verdict(name: str, offer: Offer, proof: str, alias: str | None) -> Outcome:
    if alias is not None:
        return Scored(value=1.0, explanation=f"{shown(name)} was on offer as {shown(alias)}{offer.remark}")
    if proof:
        explanation = f"{shown(name)} was not among the recorded tools on offer, but {proof}: the record is incomplete"
        return NotEvaluated(reason="no_tool_offer", explanation=explanation)
    wanted = name[:_COMPARED_LENGTH].casefold()
    closest, best = None, _CLOSE_ENOUGH
    for candidate in islice(offer.tools, _COMPARED_NAMES):
        similarity = on_demand.rapidfuzz.distance.Levenshtein.normalized_similarity(
            wanted, candidate[:_COMPARED_LENGTH].casefold()
        )
        # On a tie the first one offered stays, so that the hint is stable.
        if similarity > best or (closest is None and similarity == best):
            closest, best = candidate, similarity
    hint = f"; the closest on offer is {shown(closest)}" if closest is not None else ""
    return Scored(
        value=0.0, explanation=f"{shown(name)} was not among the {len(offer.tools)} tools on offer{offer.remark}{hint}"
    )


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

    def outcomes(self, facts: Facts) -> list[Judged]:
        """Return one outcome a call."""
        found, trajectory = facts.error_texts, facts.trajectory
        calls = self.calls(found.trajectory)
        if not calls:
            return [(None, nothing_to_judge(trajectory))]
        outcomes: list[Judged] = []
        recorded = {} if found.trajectory is trajectory else {call.order: call for call in trajectory.calls}
        may_recover = self.retries == "ignore" and bool(facts.without_effect)
        recovered = facts.made_good(calls) if may_recover else {}
        repaired: Collection[int] = repaired_code(trajectory) if may_recover else ()
        recoveries: Mapping[int, int] = Counter([one.order for one in recovered.values()]) if recovered else {}
        special = {*recovered, *repaired, *recoveries, *found.shown}
        # Most calls of a tool have the same outcome: one object a tool costs less to make, check and write.
        succeeded = self._usual
        for call in calls:
            order = call.order
            if call.error is None and call.state == "executed" and order not in special:
                usual = succeeded.get(call.name) or succeeded.keep(call.name, _success(call))
                outcomes.append((recorded.get(order, call), usual))
                continue
            if order in recovered or order in repaired:
                continue
            outcome = _success(call)
            if isinstance(outcome, Scored) and order in recoveries:
                failures = recoveries[order]
                after = f", after {failures} failed {'call' if failures == 1 else 'calls'} of it"
                explanation = outcome.explanation + after
                outcome = replace(outcome, explanation=explanation, parts={"recovered_failures": failures})
            elif isinstance(outcome, Scored) and order in special:
                # Rule: a single error text, or one of a tool that worked in the run, is shown and fails nothing.
                explanation = f"{outcome.explanation}; its answer reads like an error"
                outcome = replace(outcome, explanation=explanation, parts={"error_text": 1})
            outcomes.append((recorded.get(order, call), outcome))
        return outcomes


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


# Less than a second for all calls of a trajectory.
_STEPS = 300_000
_MAX_SHOWN = 5


class ToolContract(FactsEvaluator):
    """The share of the clauses of its tool's contract that a call keeps: `requires`, `arguments`, `result`, `fails_when`, `personal`.

    `requires`: a call of the other tool worked in an earlier turn; with `same`, its arguments or result had the value that this
    call has. `arguments` and `result` are JSON Schemas; only results of calls that worked are judged. `fails_when` names results that are failures; one that
    the same agent made good with a later call is left out. `personal`: the values are in no call of a tool without personal arguments.

    Parts: `clauses` that could be judged, `held`, and `not_judged`.
    """

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "call"
    needs: ClassVar[Needs] = Needs(reference="none", recent_offer=True, contracts=True)
    judges_every_answer: ClassVar[bool] = True

    def outcomes(self, facts: Facts) -> Iterator[Judged]:
        """Yield one outcome for each call that a contract judges."""
        contracts = [(call, facts.kinds.of(call.name)) for call in self.calls(facts.trajectory)]
        review = _Review(facts, [(call, contract) for call, contract in contracts if contract.judges])
        is_any = False
        for call, contract in review.judged:
            verdicts = [*review.verdicts(call, contract)]
            if verdicts:
                is_any = True
                yield call, joined(call, verdicts, "clauses")
        if not is_any:
            nothing = NotEvaluated(reason="no_calls", explanation="no contract judges a call")
            yield None, hidden_calls(facts.trajectory) if facts.trajectory.hidden_turns else nothing


class _Review:
    """Judges the calls of one trajectory that have contracts."""

    def __init__(self, facts: Facts, judged: Sequence[tuple[ToolCall, Contract]]) -> None:
        self.facts = facts
        self.judged = judged
        self._steps = Steps(_STEPS)
        # Prepared once for all calls of a tool.
        self._required: dict[tuple[str, int], _Required] = {}
        self._within: dict[tuple[str, str], StaysWithin] = {}
        fails = any(contract.fails_when is not None for _, contract in judged)
        self._made_good: Collection[int] = facts.made_good([call for call, _ in judged]) if fails else ()

    def verdicts(self, call: ToolCall, contract: Contract) -> Iterator[Verdict]:
        """Judge each clause."""
        for number, requirement in enumerate(contract.requires or ()):
            asked = (call.name, number)
            if asked not in self._required:
                self._required[asked] = _Required(requirement, call.name, self)
            yield from self._required[asked].verdicts(call)
        if contract.arguments_schema is not None:
            arguments = readable_arguments(call)
            if arguments is None:
                yield no_object(call)
            else:
                yield self._broken("arguments", call, contract.arguments_schema, (arguments,))
        if contract.result_schema is not None and has_taken_effect(call):
            value = unseen_part(call) or recorded_result(call)
            if isinstance(value, NotEvaluated):
                yield value
            else:
                # A text may be meant as it is.
                inner = opened(value)
                values = (inner,) if inner is value else (inner, value)
                yield self._broken("result", call, contract.result_schema, values)
        if contract.fails_when is not None and not was_stopped(call):
            if call.error is None or call.error.kind != FAILED_RESULT:
                yield None
            elif call.order not in self._made_good:
                where, message = failed_by(call, contract) or "", Side(value=call.error.message)
                failing = Difference(where=f"{call.name}: {where}", rule="fails_when", actual=message)
                note = f"`fails_when`: the result is a failure by its {shown(where)}"
                yield Broken(note=note, differences=(failing,))
        for path in contract.personal or ():
            arguments, subject = readable_arguments(call), _subject(call.name, path)
            if arguments is None:
                yield no_object(call)
            elif found := subject.values(arguments):
                key = (call.name, path)
                if key not in self._within:
                    wanted, tools = self.values(subject), self.facts.kinds.personal
                    self._within[key] = StaysWithin(subject, wanted, self.facts.trajectory, only_in=tools, not_in=None)
                yield _named("personal", self._within[key].judge(call, found))

    def values(self, subject: Subject) -> list[Leaf]:
        """Return the values that all calls of a tool have at a place."""
        calls = (readable_arguments(call) or {} for call, _ in self.judged if subject.place.tool.leads_to(call.name))
        return [value for arguments in calls for value in subject.values(arguments)]

    def _broken(self, clause: str, call: ToolCall, schema: ToolSchema, values: Sequence[Json]) -> Verdict:
        """Check a value that may be read in several ways: one that is valid will do."""
        try:
            checked = [(value, schema.violations(value, self._steps)) for value in values]
        except SchemaError as error:
            return NotEvaluated(
                reason="no_schema", explanation=f"`{clause}` of {shown(call.name)} cannot be checked: {error}"
            )
        if not all(found for _, found in checked):
            return None
        value, found = checked[0]
        # A masked value breaks no rule: the hidden one may be valid.
        broken = [violation for violation in found if not is_masked(violation, value)]
        if not broken:
            explanation = f"the values of {shown(call.name)} that break its `{clause}` were redacted"
            return NotEvaluated(reason="redacted", explanation=explanation)
        complaints = first_notes([*map(complaint, broken[: _MAX_SHOWN + 1])], _MAX_SHOWN)
        differences = tuple([difference(call.name, violation) for violation in broken[:MAX_DIFFERENCES]])
        return Broken(note=f"`{clause}`: {', '.join(complaints)}", differences=differences)


class _Required:
    """What calls of one tool require of calls before them."""

    def __init__(self, requirement: Requirement, tool: str, review: _Review) -> None:
        tools, trajectory = Globs(requirement.call), review.facts.trajectory
        self._names = " or ".join(map(shown, requirement.call))
        # A call of both sides is not bound.
        self._is_bound = not tools.match(tool)
        worked = [call.turn for call in trajectory.calls if tools.match(call.name) and has_taken_effect(call)]
        self._first_turn = min(worked, default=None)
        source = ResultsOf(self._names, tools, None, or_arguments=True)
        subjects = [_subject(tool, path) for path in requirement.same or ()]
        self._same = [(one, FromResults(one, (source,), review.values(one), trajectory)) for one in subjects]
        self._any = FromResults(_subject(tool, "*"), (source,), (), trajectory)

    def verdicts(self, call: ToolCall) -> Iterator[Verdict]:
        """Yield one verdict for each value that has to be the same, or one where any call will do."""
        if not self._is_bound:
            return
        arguments = readable_arguments(call)
        if self._same and arguments is None:
            yield no_object(call)
            return
        found = [(origins, values) for one, origins in self._same if (values := one.values(arguments or {}))]
        for origins, values in found:
            yield _named("requires", origins.judge(call, values))
        if not found:
            has_worked = self._first_turn is not None and self._first_turn < call.turn
            note = f"`requires`: no call of {self._names} worked before"
            yield None if has_worked else self._any.unseen(call) or Broken(note=note, differences=())


def _subject(tool: str, path: str) -> Subject:
    steps = read_path(path)
    return Subject(path, Place(tool=Step(key=tool), path=path, steps=steps, specificity=()), Exact())


def _named(clause: str, verdict: Verdict) -> Verdict:
    if not isinstance(verdict, Broken):
        return verdict
    return Broken(note=f"`{clause}`: {verdict.note}", differences=verdict.differences)

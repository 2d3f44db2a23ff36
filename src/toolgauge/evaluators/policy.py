"""`policy`: may this agent call this tool with these arguments, and read such texts? Needs no reference."""

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, model_validator

from toolgauge.model.content import NotRecorded, Recorded
from toolgauge.model.expected import Expected
from toolgauge.model.json import Json
from toolgauge.model.outcomes import Difference, Level, NotEvaluated, Outcome, Scored
from toolgauge.model.ports import Evaluation, Needs
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.call_patterns import CallPattern, Match, Sight, ValueCondition, not_empty
from toolgauge.score.origins.provenance import values_and_keys
from toolgauge.score.selection import CallSelection, not_executed, nothing_to_judge, shown, was_stopped
from toolgauge.score.tool_offers import RunOffers

_MAX_RULES = 1000
_MAX_NAME = 80
_SHOWN_PATHS = 5


class PolicyRule(CallPattern):
    """Calls that are forbidden, or allowed."""

    name: Annotated[str, Field(min_length=1, max_length=_MAX_NAME)] | None = None
    # Of `forbid` alone: met by any text in the result or the error of the call.
    result: ValueCondition | None = None
    # Of `forbid` alone: met by any text in the definition of any tool that the call's run was offered.
    offered: ValueCondition | None = None

    def look(self, call: ToolCall, trajectory: Trajectory, offers: RunOffers | None) -> Sight:
        """Return whether the call is meant, its result and the tools on offer included."""
        sight = self.sight(call, trajectory)
        if sight.match is Match.YES and self.offered is not None and offers is not None:
            offered = [tool for offer in offers.of(call) for tool in offer.tools.values()]
            offered += [] if call.definition is None else [call.definition]
            for tool in offered:
                if any(map(self.offered.holds, values_and_keys([tool.name, tool.description, tool.parameters]))):
                    sight = Sight(Match.YES, (shown(tool.name),))
                    break
            else:
                explanation = f"the tools beside {shown(call.name)} were not recorded"
                unseen = Sight(Match.UNSEEN, doubt=NotEvaluated(reason="no_tool_offer", explanation=explanation))
                sight = Sight(Match.NO, ("offered",)) if offered else unseen
        if sight.match is Match.YES and self.result is not None:
            texts: list[Json] = [] if call.error is None else [call.error.message]
            if not isinstance(call.result, NotRecorded):
                texts.append(call.result.value if isinstance(call.result, Recorded) else call.result.text)
            if any(map(self.result.holds, values_and_keys(texts))):
                return Sight(Match.YES)
            if was_stopped(call):
                return Sight(Match.UNSEEN, doubt=not_executed(call))
            explanation = f"the result of {shown(call.name)} was not recorded"
            unseen = Sight(Match.UNSEEN, doubt=NotEvaluated(reason="results_not_recorded", explanation=explanation))
            return Sight(Match.NO, ("result",)) if texts else unseen
        return sight


_Rules = Annotated[tuple[PolicyRule, ...], Field(max_length=_MAX_RULES), AfterValidator(not_empty)]


class Policy(CallSelection):
    """0 for a call that a rule of `forbid` means, or none of `allow_only`; else 1.

    A rule of `allow_only` with an `agent` binds only the calls of that agent. Calls that were requested and never
    executed, rejected ones among them, are judged like all others: the model wanted them.
    """

    version: ClassVar[str] = "1"
    judges_every_answer: ClassVar[bool] = True
    level: ClassVar[Level] = "call"

    forbid: _Rules | None = None
    allow_only: _Rules | None = None

    @property
    def needs(self) -> Needs:
        """The needs of its rules."""
        return Needs(
            reference="none",
            recent_offer=True,
            binary=True,
            # Spans that were not seen may name the agent, or hold attributes.
            whole=any(rule.agent is not None or rule.expression is not None for rule in self._rules),
            attributes=tuple(dict.fromkeys(key for rule in self._rules for key in rule.attributes)),
            titled=("forbid", "allow_only"),
        )

    @property
    def _rules(self) -> tuple[PolicyRule, ...]:
        return (*(self.forbid or ()), *(self.allow_only or ()))

    @model_validator(mode="after")
    def _has_rules(self) -> "Policy":
        if self.forbid is None and self.allow_only is None:
            raise ValueError("needs `forbid` or `allow_only`")
        if any(rule.result is not None or rule.offered is not None for rule in self.allow_only or ()):
            raise ValueError("has `result` or `offered` in `allow_only`: only rules of `forbid` may have them")
        return self

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002 (no reference needed)
        """Yield one outcome a call."""
        calls = self.calls(trajectory)
        if not calls:
            yield None, nothing_to_judge(trajectory)
        allowed = self._usual
        offers = RunOffers(trajectory) if any(rule.offered is not None for rule in self._rules) else None
        for call in calls:
            outcome = self._refusal(call, trajectory, offers) or allowed.get(call.name)
            if outcome is None:
                outcome = allowed.keep(call.name, Scored(value=1.0, explanation=f"no rule forbids {shown(call.name)}"))
            yield call, outcome

    def _refusal(self, call: ToolCall, trajectory: Trajectory, offers: RunOffers | None) -> Outcome | None:
        doubt: Outcome | None = None
        for number, rule in enumerate(self.forbid or (), 1):
            sight = rule.look(call, trajectory, offers)
            if sight.match is Match.YES:
                title = f"rule {number} of `forbid`" + ("" if rule.name is None else f" ({shown(rule.name)})")
                because = f" by {_listed(rule.conditions)}" if rule.conditions else ""
                if rule.result is not None:
                    because += " by its result"
                if sight.unmet:
                    because += f" by the definition of {sight.unmet[0]}, which is on offer"
                return _refused(call, "forbid", f"{title} forbids {shown(call.name)}{because}", tuple(rule.arguments))
            doubt = doubt or sight.doubt
        bound = [rule for rule in self.allow_only or () if rule.binds(call, trajectory)]
        admissions = [rule.admission(call, trajectory) for rule in bound]
        match = max((admission.match for admission in admissions), default=Match.YES)
        if match is Match.NO:
            # The conditions of the first rule for its tool.
            unmet = next((admission.unmet for admission in admissions if admission.unmet), ())
            because = f": {_listed(unmet)} not met" if unmet else ""
            return _refused(call, "allow_only", f"`allow_only` does not allow {shown(call.name)}{because}", unmet)
        if match is Match.UNSEEN:
            doubt = doubt or next(admission.doubt for admission in admissions if admission.doubt is not None)
        return doubt


def _listed(paths: Sequence[str]) -> str:
    more = ", ..." if len(paths) > _SHOWN_PATHS else ""
    return ", ".join(map(shown, paths[:_SHOWN_PATHS])) + more


def _refused(call: ToolCall, rule: str, explanation: str, paths: Sequence[str]) -> Scored:
    """Return 0 with a difference for each of the values at the paths; without paths for the call."""
    states = {
        "rejected": "; it was rejected",
        "refused": "; it was refused",
        "paused": "; it waits for a person",
        "cancelled": "; it was cancelled",
        "requested_only": "; it was requested, and no execution was seen",
    }
    places = [f"{call.name}.{path}" for path in paths[:_SHOWN_PATHS]] or [call.name]
    differences = tuple(Difference(where=place, rule=rule) for place in places)
    return Scored(0.0, explanation + states.get(call.state, ""), differences=differences)

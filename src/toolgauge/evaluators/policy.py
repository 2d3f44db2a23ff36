"""`policy`: may this agent call this tool with these arguments? Needs no reference."""

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, model_validator

from toolgauge.model.expected import Expected
from toolgauge.model.outcomes import Difference, Level, Outcome, Scored
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.call_patterns import CallPattern, Match, not_empty
from toolgauge.score.selection import CallSelection, nothing_to_judge, shown

_MAX_RULES = 1000
_MAX_NAME = 80
_SHOWN_PATHS = 5


class PolicyRule(CallPattern):
    """Calls that are forbidden, or allowed."""

    name: Annotated[str, Field(min_length=1, max_length=_MAX_NAME)] | None = None


_Rules = Annotated[tuple[PolicyRule, ...], Field(max_length=_MAX_RULES), AfterValidator(not_empty)]


class Policy(CallSelection):
    """0 for a call that a rule of `forbid` means, or none of `allow_only`; else 1.

    A rule of `allow_only` with an `agent` binds only the calls of that agent. Calls that were requested and never
    executed, rejected ones among them, are judged like all others: the model wanted them.
    """

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "call"
    ignores_reference: ClassVar[bool] = True
    needs_content: ClassVar[bool] = False
    binary: ClassVar[bool] = True

    forbid: _Rules | None = None
    allow_only: _Rules | None = None

    @property
    def needs_whole(self) -> bool:
        """Whether spans that were not seen could change the outcome: they may name the agent, or hold attributes."""
        return any(rule.agent is not None or rule.expression is not None for rule in self._rules)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of the trace that the rules ask for."""
        return tuple(dict.fromkeys(key for rule in self._rules for key in rule.attributes))

    @property
    def _rules(self) -> tuple[PolicyRule, ...]:
        return (*(self.forbid or ()), *(self.allow_only or ()))

    @model_validator(mode="after")
    def _has_rules(self) -> "Policy":
        if self.forbid is None and self.allow_only is None:
            raise ValueError("needs `forbid` or `allow_only`")
        return self

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002 (no reference needed)
        """Yield one outcome a call."""
        calls = self.calls(trajectory)
        if not calls:
            yield None, nothing_to_judge(trajectory)
        allowed = self._usual
        for call in calls:
            outcome = self._refusal(call, trajectory) or allowed.get(call.name)
            if outcome is None:
                outcome = allowed.keep(call.name, Scored(value=1.0, explanation=f"no rule forbids {shown(call.name)}"))
            yield call, outcome

    def _refusal(self, call: ToolCall, trajectory: Trajectory) -> Outcome | None:
        doubt: Outcome | None = None
        for number, rule in enumerate(self.forbid or (), 1):
            sight = rule.sight(call, trajectory)
            if sight.match is Match.YES:
                title = f"rule {number} of `forbid`" + ("" if rule.name is None else f" ({shown(rule.name)})")
                because = f" by {_listed(rule.conditions)}" if rule.conditions else ""
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
        "requested_only": "; it was requested, and no execution was seen",
    }
    places = [f"{call.name}.{path}" for path in paths[:_SHOWN_PATHS]] or [call.name]
    differences = tuple(Difference(where=place, rule=rule) for place in places)
    return Scored(0.0, explanation + states.get(call.state, ""), differences=differences)

"""`tool_contract`: does each call keep to the contract of its tool in section `tools`? Needs no reference."""

from collections.abc import Collection, Iterator, Sequence
from typing import ClassVar

from toolgauge.model.errors import SchemaError
from toolgauge.model.json import Json, Leaf
from toolgauge.model.judging import Judged
from toolgauge.model.outcomes import Difference, Level, NotEvaluated, Side
from toolgauge.model.ports import Needs
from toolgauge.model.trajectory import ToolCall
from toolgauge.score.contracts import Contract, Requirement
from toolgauge.score.error_texts import FAILED_RESULT, failed_by, opened
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
    has_taken_effect,
    hidden_calls,
    no_object,
    readable_arguments,
    recorded_result,
    shown,
    was_stopped,
)
from toolgauge.score.tool_schemas import Steps, ToolSchema, complaint, difference, is_masked

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

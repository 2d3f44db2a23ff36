"""Outcomes, results and scorecards of a trajectory.

A score is a number; `NotEvaluated` ("could not look") and `Errored` are not: they enter no mean, threshold or window.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import astuple

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json
from toolgauge.model.metrics import MAX_LABEL
from toolgauge.model.names import stable_tool
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall, Trajectory

Reason: TypeAlias = Literal[
    "no_reference",
    "nothing_expected",
    "no_calls",
    "arguments_not_recorded",
    "results_not_recorded",
    "unparsable",
    "truncated",
    "redacted",
    "no_tool_offer",
    "no_schema",
    "no_content",
    "not_executed",
    "no_answer",
    "undecided",
    "incomplete",
    "sampled_out",
    "overload",
    "judge_budget",
]
# What each reason means, for people.
MEANINGS: Mapping[Reason, str] = {
    "no_reference": (
        "nothing to compare with: no expected calls or answer, no such attribute of the trace, or nothing that "
        "shows whether a failed call was needed"
    ),
    "nothing_expected": "what is given asks for nothing here: no expected call, no rule with a call to judge, or an answer without an id or act",
    "no_calls": (
        "no tool call, or none that the evaluator judges: none of `tools`, none that failed, none with values to "
        "look for"
    ),
    "arguments_not_recorded": "the producer does not export arguments",
    "results_not_recorded": "the producer does not export results, or no end of the call was seen",
    "unparsable": (
        "exported, and cannot be read: arguments that are no JSON object, or a path into a result that is text"
    ),
    "truncated": "exported, and cut off (by the producer, or beyond `assemble.max_content_bytes`) or hidden",
    "redacted": "exported, and cut off (by the producer, or beyond `assemble.max_content_bytes`) or hidden",
    "no_tool_offer": "the tools on offer were not exported, no earlier offer stands in, and none is registered",
    "no_schema": "the tool was exported without a schema, or with one that cannot be used, or was not on offer at all",
    "no_content": "the producer does not export messages, tokens, or which calls a model asked for",
    "not_executed": "the call waits for a person, or a person refused it: it did not run, and it did not fail",
    "no_answer": "the run has no final answer",
    "undecided": "could not tell whether the answer admits the failure, or claims an act",
    "incomplete": (
        "the trajectory was not seen as a whole: half a run, closed before its end, begun in the middle of a "
        "conversation (`scope: conversation` looks at all of its traces), or without the calls of other agents "
        "(`when.agent`)"
    ),
    "sampled_out": "outside the criterion's `sample`",
    "overload": (
        "spans of the trajectory may have passed unread, memory or room ran out, judges have too much to do, or "
        "the criterion is switched off"
    ),
    "judge_budget": "`judge.max_cost_per_hour` is spent, or no model may be asked (`toolgauge check`)",
}

Level: TypeAlias = Literal["call", "trajectory"]
Enforce: TypeAlias = Literal["live", "shadow"]
OutcomeWord: TypeAlias = Literal["pass", "fail", "not_evaluated", "error"]


class Side(Struct, frozen=True, kw_only=True):
    """One side of a difference; wraps the value so that `null` differs from absent.

    `words` describe a rule in place of a value that is hidden, without a part of any value: `integer`, `at most 3`.
    """

    value: Json
    words: str = ""


# The rule of a difference between the results of two equal calls: both sides are as they came.
EFFECT_RULE: Final = "another effect"
# The rule of a difference that is the text of an error.
ERROR_RULE: Final = "error"
# The rule of a difference that is the reason of a judge.
JUDGE_RULE: Final = "judge"
# The rule of a difference that is one call of the expected tool with other arguments; both sides have those alone that differ.
OTHER_ARGUMENTS: Final = "other arguments"


class Difference(Struct, frozen=True, kw_only=True):
    """One difference: `where` names tool and argument path, `rule` the comparison. Values are shown only if `redact.values` allows."""

    where: str
    rule: str
    expected: Side | None = None
    actual: Side | None = None


class Scored(Struct, frozen=True):
    """A score: `value` in [0, 1]; `parts` are named figures in [0, 1] or counts that make it up.

    `explanation` says what and why and holds no value from a span but names. `passed` is `None` as it leaves
    an evaluator: the scorer fills it from the criterion's `pass_at`. `is_exempt` where a parameter of the evaluator accepts
    the flaw that lowers the value: such a score passes below `pass_at`, too.
    """

    value: float
    explanation: str
    parts: Mapping[str, float] = {}
    differences: tuple[Difference, ...] = ()
    passed: bool | None = None
    is_exempt: bool = False


class NotEvaluated(Struct, frozen=True, kw_only=True, gc=False):
    """There was nothing to judge, or it could not be seen."""

    reason: Reason
    explanation: str = ""


class Errored(Struct, frozen=True, kw_only=True):
    """The evaluation itself failed."""

    error_type: str
    message: str

    @property
    def explanation(self) -> str:
        """Its message, which explains it as other outcomes are explained."""
        return self.message


Outcome: TypeAlias = Scored | NotEvaluated | Errored


class Result(Struct, frozen=True, gc=False):
    """The outcome of one criterion for one target. `call` is `None` at level `trajectory`.

    `target` is the judged span: the call's, or the trajectory's root (`None` when that was not seen). `is_binary` when the
    evaluator's scores are 0 or 1 and nothing between; `can_fail` is False where every score passes. `finding` repeats it in short.
    """

    criterion: str
    revision: str
    evaluator: str
    version: str
    level: Level
    enforce: Enforce
    outcome: Outcome
    is_binary: bool = False
    can_fail: bool = True
    finding: "Finding | None" = None
    # Last, so that all before them is prepared once for many.
    target: SpanRef | None = None
    call: ToolCall | None = None


class Finding(Struct, frozen=True, eq=False, gc=False):
    """A result without its words and target, one object for all that are alike. `value` is a score from 0 to 1, else `None`."""

    criterion: str
    revision: str
    level: Level
    enforce: Enforce
    is_binary: bool
    can_fail: bool
    word: OutcomeWord
    reason: str
    value: float | None

    def __reduce__(self) -> "tuple[Callable[..., Finding], tuple[object, ...]]":
        """Stay one object in another process, too."""
        return _same_finding, astuple(self)


class Verdict(Struct, frozen=True, eq=False, gc=False):
    """The findings of all criteria on a call of an agent and tool, or on a trajectory (no tool).

    One object for all calls with equal findings: consumers remember derived values by its identity. Names are cut.
    """

    agent: str | None
    tool: str | None
    findings: tuple[Finding, ...]


class Subject(Struct, frozen=True, gc=False):
    """A judged call, or the trajectory (`call` is `None`), with its results in order."""

    call: ToolCall | None
    target: SpanRef | None
    verdict: Verdict
    results: list[Result]


# What results of one criterion share: the first fields of a finding.
Rule: TypeAlias = tuple[str, str, Level, Enforce, bool, bool]

# Also the identity of findings and verdicts. Without the two: 5 % of all CPU.
_finding = lru_cache(maxsize=4096)(Finding)


def _same_finding(*fields: Any) -> Finding:  # noqa: ANN401 (a finding's, from a pickle)
    return _finding(*fields)


@lru_cache(maxsize=4096)
def _verdict(agent: str | None, tool: str | None, *findings: Finding) -> Verdict:
    return Verdict(agent, tool, findings)


def finding_of(rule: Rule, outcome: Outcome) -> Finding:
    """Return the finding of an outcome."""
    word: OutcomeWord = "error"
    reason, value = "", None
    if isinstance(outcome, Scored):
        # Only numbers from 0 to 1 may enter a mean anywhere.
        if 0.0 <= outcome.value <= 1.0:
            word, value = "pass" if outcome.passed else "fail", outcome.value
    elif isinstance(outcome, NotEvaluated):
        word, reason = "not_evaluated", outcome.reason
    return _finding(*rule, word, reason, value)


_T = TypeVar("_T")


class once(Struct, Generic[_T], frozen=True):  # noqa: N801 (a decorator)
    """Finds a value when it is first asked for; `functools.cached_property` takes a lock, and three times as long."""

    find: Callable[[Any], _T]

    def __get__(self, one: object, owner: type | None = None) -> _T:
        """Find the value; from then on Python takes it from the object itself."""
        found = one.__dict__[self.find.__name__] = self.find(one)
        return found


class Scorecard(Struct, frozen=True, kw_only=True, dict=True):
    """All results of one trajectory. `scored_at_ns` is wall-clock time since the epoch.

    Judges answer late: their results come in a scorecard of their own (`by_judges`) after the first one (`awaits_judges`).
    """

    trajectory: Trajectory
    results: tuple[Result, ...]
    scored_at_ns: int
    by_judges: bool = False
    awaits_judges: bool = False

    @once
    def criteria(self) -> tuple[str, ...]:
        """The criteria by name, in the order of their results."""
        return tuple(dict.fromkeys([result.criterion for result in self.results]))

    @once
    def subjects(self) -> tuple[Subject, ...]:
        """The judged calls and the trajectory, in the order of their first results."""
        # By identity: all results of a call have its span as their target.
        grouped: defaultdict[int, list[Result]] = defaultdict(list)
        for result in self.results:
            grouped[id(result.call)].append(result)
        agents = self.trajectory.agents
        subjects: list[Subject] = []
        for results in grouped.values():
            first = results[0]
            call, tool = first.call, None
            agent = agents[0] if agents else None
            # Cut as labels are: it must not hold a megabyte of somebody's name.
            if call is not None:
                agent, tool = call.agent, call.name and stable_tool(call.name)[:MAX_LABEL]
            findings = [
                one.finding
                or finding_of(
                    (one.criterion, one.revision, one.level, one.enforce, one.is_binary, one.can_fail), one.outcome
                )
                for one in results
            ]
            verdict = _verdict(agent and agent[:MAX_LABEL], tool, *findings)
            subjects.append(Subject(call, first.target, verdict, results))
        return tuple(subjects)

    @once
    def verdicts(self) -> Mapping[Verdict, list[Subject]]:
        """The subjects by verdict."""
        by_verdict: dict[Verdict, list[Subject]] = {}
        for subject in self.subjects:
            by_verdict.setdefault(subject.verdict, []).append(subject)
        return by_verdict


def outcome_word(outcome: Outcome) -> OutcomeWord:
    """Name the outcome as it travels on the wire (`toolgauge.outcome`)."""
    # Asked of every result several times; a `match` takes three times as long.
    if isinstance(outcome, Scored):
        return "pass" if outcome.passed else "fail"
    return "not_evaluated" if isinstance(outcome, NotEvaluated) else "error"


# Of each call three things are looked for: its arguments, its end, and the definition of its tool.
OBSERVABLE = 3
UNOBSERVED: tuple[Reason, ...] = (
    "arguments_not_recorded",
    "redacted",
    "truncated",
    "unparsable",
    "results_not_recorded",
    "no_tool_offer",
    "no_schema",
    # Of calls that were made and not recorded.
    "no_content",
)


def unseen(content: Content, absent: Reason) -> Reason | None:
    """Return why a content cannot be read, `absent` where it was not recorded; `None` for one that can."""
    match content:
        case Recorded():
            return None
        case NotRecorded(reason=reason):
            return "redacted" if reason == "redacted" else absent
        case Unparsed(reason=reason):
            return reason


class Observed:
    """Finds unobserved parts of the calls of one trajectory, but not in results and messages, which are not always read."""

    __slots__ = ("_has_schema",)

    def __init__(self, trajectory: Trajectory) -> None:
        offered = trajectory.tools_offered
        self._has_schema = None if offered is None else {tool.name: tool.parameters is not None for tool in offered}

    def missing(self, call: ToolCall) -> tuple[Reason, ...]:
        """Return why each thing that could not be observed of a call could not; nothing for most calls."""
        if call.kind == "code":
            # No tool was called, and the model's own output is all that there is of its code.
            return ()
        # Settles nearly all calls.
        if call.state == "executed" and isinstance(call.arguments, Recorded):
            if self._has_schema is None:
                return ("no_tool_offer",)
            return () if self._has_schema.get(call.name, True) else ("no_schema",)
        found: list[Reason | None] = [unseen(call.arguments, "arguments_not_recorded")]
        if call.state == "requested_only" and call.error is None and isinstance(call.result, NotRecorded):
            found.append("results_not_recorded")
        if self._has_schema is None:
            found.append("no_tool_offer")
        # Of a tool that was not on offer all is known.
        elif not self._has_schema.get(call.name, True):
            found.append("no_schema")
        return tuple([reason for reason in found if reason is not None])

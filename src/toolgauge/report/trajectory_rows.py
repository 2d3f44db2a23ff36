"""Trajectories as rows of a list (who, when, how many calls, the worst result), and the filters that choose them.

Filters come from a query: a name that nothing has finds nothing, and text in place of a number is passed over.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b
from typing import Annotated, Literal, Self, TypeAlias
from urllib.parse import urlencode

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import asdict, replace

from toolgauge.export.redact import Redactor
from toolgauge.model.outcomes import Errored, NotEvaluated, OutcomeWord, Result, Scorecard, Scored, outcome_word
from toolgauge.model.plain_words import reason_words, with_cause
from toolgauge.model.records import VERSION
from toolgauge.model.trajectory import Trajectory
from toolgauge.report.explanations import brief_reason, deciding, failures, requirement, worst_result
from toolgauge.report.html import visible
from toolgauge.report.terminal import counted, shortened
from toolgauge.score.failing_calls import SHADOW
from toolgauge.watch.fingerprint import fingerprint

OutcomeFilter: TypeAlias = Literal["all", "failed", "error", "passed", "not_evaluated"]
ScopeFilter: TypeAlias = Literal["", "trace", "conversation"]

MAX_TEXT = 200
# Of a name, of one in a line of text, and of a reason.
_MAX_NAME, _MAX_SHOWN, _MAX_WHY = 200, 40, 300
UNKNOWN_SERVICE = "unknown service"
_WORD: Mapping[str, OutcomeWord] = {"failed": "fail", "error": "error"}


class Query(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The values of a query, each with the default that stands for no condition."""

    @classmethod
    def of(cls, query: Mapping[str, tuple[str, ...]]) -> Self:
        """Read a query; names and values that are not known are passed over."""
        found = cls()
        for name in query.keys() & {*cls.__struct_fields__}:
            text = next(filter(None, query[name]), "")[:MAX_TEXT]
            is_number = isinstance(getattr(found, name), int) and text.isascii() and text.isdecimal()
            with suppress(ValidationError):
                found = replace(found, **{name: getattr(convert({name: int(text) if is_number else text}, cls), name)})
        return found

    def query(self, **changed: object) -> str:
        """Write a query, with some values changed: `?outcome=failed`, empty without any condition."""
        plain = asdict(type(self)())
        values = {name: value for name, value in (asdict(self) | changed).items() if value != plain[name]}
        return f"?{urlencode(values, errors='replace')}" if values else ""


class TrajectoryFilters(Query, frozen=True, kw_only=True, omit_defaults=True):
    """A choice of trajectories; an empty text matches all. `q` begins an id; a page shows trajectories `before` a number;
    `run_property` is `name=value`.

    With a criterion or a tool, `outcome` is that of their own results alone, in shadow too; else that of all live ones.
    """

    outcome: OutcomeFilter = "all"
    service: str = ""
    version: str = ""
    agent: str = ""
    tool: str = ""
    criterion: str = ""
    scope: ScopeFilter = ""
    run_property: str = ""
    q: str = ""
    before: Annotated[int, Meta(ge=0, lt=10**15)] = 0

    def matches(self, scored: Scorecard) -> bool:
        """Return whether a trajectory is meant."""
        trajectory, conversation = scored.trajectory, scored.trajectory.conversation_id or ""
        name, _, value = self.run_property.partition("=")
        return (
            is_meant(trajectory.service, self.service)
            and is_meant(trajectory.resource.get(VERSION), self.version)
            and self.scope in ("", trajectory.scope)
            and (not self.agent or any(is_meant(agent, self.agent) for agent in trajectory.agents))
            and (not self.tool or any(is_meant(call.name, self.tool) for call in trajectory.calls))
            and any(one.lower().startswith(self.q.strip().lower()) for one in (trajectory.trace_id, conversation))
            and self._has_results(scored.results)
            and (not name or is_meant(fingerprint(trajectory).get(name, ""), value))
        )

    def _has_results(self, results: Iterable[Result]) -> bool:
        if not self.criterion and self.outcome == "all":
            return True
        meant = [
            result
            for result in results
            if (not self.tool or (result.call is not None and is_meant(result.call.name, self.tool)))
            and (result.criterion == self.criterion if self.criterion else self.tool or result.enforce == "live")
        ]
        words = {outcome_word(result.outcome) for result in meant}
        match self.outcome:
            case "all":
                return bool(meant)
            case "passed":
                return "pass" in words and words.isdisjoint(("fail", "error"))
            case "not_evaluated":
                return (bool(meant) or not self.criterion) and words <= {"not_evaluated"}
            case _:
                return _WORD[self.outcome] in words


def trajectory_id(trajectory: Trajectory) -> str:
    """Return an id that is safe in a URL: the trace's, or one made of the conversation's."""
    if trajectory.scope == "trace":
        return trajectory.closed_id
    conversation = (trajectory.conversation_id or "").encode(errors="replace")
    return f"conversation-{blake2b(conversation, digest_size=8).hexdigest()}"


def is_meant(name: str | None, asked: str) -> bool:
    """Return whether a query asks for this name: as it is, or as the lists of a page's filters write it; "" asks for any."""
    return asked in ("", name) or ("\\" in asked and name is not None and visible(name) == asked)


class TrajectoryRow(Struct, frozen=True, kw_only=True):
    """One trajectory. `criterion` is of the worst result, empty without any; `others` counts further failures, and `also` is the
    next criterion that failed, if any.

    `figure` is the score that failed beside the least that passes, or the type of an error."""

    id: str
    time_ns: int
    word: OutcomeWord
    service: str
    version: str
    agent: str
    more_agents: int
    calls: int
    criterion: str
    score: float | None
    figure: str
    tool: str
    why: str
    also: str
    others: int
    is_shadow: bool

    @property
    def who(self) -> str:
        """The service, its version and the agent, for a line of text."""
        names = " ".join(shortened(name, _MAX_SHOWN) for name in (self.service, self.version) if name)
        agent = shortened(self.agent, _MAX_SHOWN) + (f" +{self.more_agents}" if self.more_agents else "")
        return f"{names}  {agent}" if agent else names

    @property
    def reason(self) -> str:
        """The worst result for a line of text: criterion, score, tool, how many others failed, and why."""
        if not self.criterion:
            return self.why
        figure = f" {self.figure[:_MAX_SHOWN]}" if self.figure else ""
        # Most explanations name the tool.
        of = f" of {self.tool[:_MAX_SHOWN]}" if self.tool not in self.why else ""
        more = f" (and {self.others} more)" if self.others else ""
        if self.also:
            more = f" (also {self.also[:_MAX_SHOWN]}{f', {self.others - 1} more' if self.others > 1 else ''})"
        return f"{self.criterion[:_MAX_SHOWN]}{figure}{of}{SHADOW if self.is_shadow else ''}{more}: {self.why}"


def row(scored: Scorecard, redactor: Redactor, pass_at: Mapping[str, float] = {}) -> TrajectoryRow:
    """Make the row of one trajectory; `pass_at` is as in `shown_verdict`."""
    trajectory, results = scored.trajectory, deciding(scored.results)
    worst = worst_result(results)
    failed = failures(results)
    words = Counter(outcome_word(result.outcome) for result in results)
    word: OutcomeWord = "not_evaluated"
    score, figure = None, ""
    why = "waits for judges" if scored.awaits_judges else "no criterion applies"
    if worst is not None:
        word = outcome_word(worst.outcome)
        why = brief_reason(worst.outcome, redactor)
        match worst.outcome:
            case Scored(passed=True):
                unseen = f", {words['not_evaluated']} not evaluated" if words["not_evaluated"] else ""
                why = f"{counted(words['pass'], 'check')} passed{unseen}"
            case Scored(value=value):
                # A failing score between 0 and 1 is followed by the score that passes.
                needed = requirement(worst, pass_at) if value else ""
                score, figure = value, f"{value:.2f} ({needed})" if needed else f"{value:.2f}"
            case Errored(error_type=error_type):
                figure, why = error_type[:_MAX_NAME], why or reason_words(error_type)
            case NotEvaluated(reason=reason):
                why = why or reason_words(reason)
    is_named = worst is not None and word != "pass"
    return TrajectoryRow(
        id=trajectory_id(trajectory),
        time_ns=scored.scored_at_ns,
        word=word,
        service=(trajectory.service or UNKNOWN_SERVICE)[:_MAX_NAME],
        version=trajectory.resource.get(VERSION, "")[:_MAX_NAME],
        agent=next(iter(trajectory.agents), "")[:_MAX_NAME],
        more_agents=max(0, len(trajectory.agents) - 1),
        calls=len(trajectory.calls),
        criterion=worst.criterion if worst is not None and is_named else "",
        score=score,
        figure=figure,
        tool=worst.call.name[:_MAX_NAME] if worst is not None and is_named and worst.call is not None else "",
        why=with_cause(why, _MAX_WHY),
        also=next((one.criterion for one in failed if worst is not None and one.criterion != worst.criterion), ""),
        others=max(0, len(failed) - 1),
        is_shadow=worst is not None and worst.enforce == "shadow",
    )

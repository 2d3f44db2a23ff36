"""Scores closed trajectories, and hands each scorecard to its consumers in order.

Answers of judges make scorecards of their own, which arrive later and take the same way.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.assemble.cross_trace import SplitDetector
from toolgauge.export.results import Annotations
from toolgauge.model.judging import Answers
from toolgauge.model.metrics import MAX_LABEL
from toolgauge.model.notices import Notice
from toolgauge.model.outcomes import Reason, Scorecard
from toolgauge.model.records import VERSION, SpanRef
from toolgauge.model.trajectory import Trajectory
from toolgauge.otlp.encode import annotate, taken_slots
from toolgauge.pipeline.egress import Egress, HeldSpan
from toolgauge.pipeline.stages import Parts, PipelineSettings
from toolgauge.score.error_texts import with_failures
from toolgauge.score.scorer import Scorer

# So many runs in a row with a name that none of them had before make it no name; so many names are remembered of a service.
_MOST_NEW, _REMEMBERED = 30, 256
_MOST_SERVICES = 1000
_AGENT, _AGENT_VERSION = "gen_ai.agent.name", "gen_ai.agent.version"
# The service and scope of a trajectory, and the attribute with the name.
_Key: TypeAlias = tuple[str, str, str]


class _Newest(Struct, gc=False):
    """The newest names, and how many runs in a row had one that was not among them."""

    names: dict[str, None]
    in_a_row: int = 0


class RunNames:
    """Takes agents and versions out of a trajectory that nearly every run of its service has of its own: scores are compared by them."""

    def __init__(self) -> None:
        self._newest: dict[_Key, _Newest] = {}

    def settled(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory without agents and versions of which each run has its own."""
        resource, properties = trajectory.resource, trajectory.properties
        if self._new(trajectory, VERSION, resource.get(VERSION)):
            trajectory = replace(trajectory, resource={**resource, VERSION: ""})
        if self._new(trajectory, _AGENT_VERSION, properties.get(_AGENT_VERSION)):
            kept = {name: value for name, value in properties.items() if name != _AGENT_VERSION}
            trajectory = replace(trajectory, properties=kept)
        new = self._new(trajectory, _AGENT, *trajectory.agents)
        return _without_agents(trajectory, new) if new else trajectory

    def _new(self, trajectory: Trajectory, key: str, *names: str | None) -> frozenset[str]:
        """Return the names that no run before had, where that is so of each run."""
        named = [name[:MAX_LABEL] for name in names if name]
        if not named:
            return frozenset()
        whose = (trajectory.service or "")[:MAX_LABEL], trajectory.scope, key
        newest = self._newest.get(whose) or self._newest.setdefault(whose, _Newest({}))
        new = frozenset(named).difference(newest.names)
        newest.in_a_row = newest.in_a_row + 1 if new else 0
        for name in named:
            newest.names.pop(name, None)
            newest.names[name] = None
        while len(newest.names) > _REMEMBERED:
            del newest.names[next(iter(newest.names))]
        if len(self._newest) > _MOST_SERVICES:
            del self._newest[next(iter(self._newest))]
        return new if newest.in_a_row > _MOST_NEW else frozenset()


def _without_agents(trajectory: Trajectory, gone: frozenset[str]) -> Trajectory:
    def is_gone(name: str | None) -> bool:
        return name is not None and name[:MAX_LABEL] in gone

    def kept(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple([name for name in names if not is_gone(name)])

    calls = [replace(call, agent_path=kept(call.agent_path)) for call in trajectory.calls]
    calls = [replace(call, agent=None) if is_gone(call.agent) else call for call in calls]
    runs = [replace(run, agent=None) if is_gone(run.agent) else run for run in trajectory.runs]
    return replace(trajectory, agents=kept(trajectory.agents), calls=tuple(calls), runs=tuple(runs))


_UNREAD = "requests passed unread while it was open, or shortly before"


class GivenUp(BaseException):
    """Ends the scoring of a thread whose work another one has taken."""


class Scoring:
    """Scores by the criteria of `scorer`, which may be exchanged between two trajectories."""

    def __init__(self, parts: Parts, egress: Egress) -> None:
        self._parts = parts
        self._egress = egress
        self._metrics = parts.metrics
        self._split_detector = SplitDetector()
        self._run_names = RunNames()
        self._answers: deque[Answers] = deque()
        self._consumers: tuple[Callable[[Scorecard], None], ...] = (
            parts.sink.record,
            egress.scorecards.append,
            self._annotate,
            parts.feedback.observe,
            self._watch,
            self._notify,
        )
        self._is_interrupted = self._is_given_up = False
        # Trajectories that left unscored because of `interrupt`.
        self.interrupted = 0
        # When requests last passed unread.
        self.unread_until_ns: int | None = None
        self.adopt(parts.scorer, parts.settings)
        parts.metrics.criteria_unmatched.observe = lambda: self.scorer.unmatched.states
        parts.metrics.split_suspected.observe = lambda: {(): float(self._split_detector.split_suspected)}

    def adopt(self, scorer: Scorer, settings: PipelineSettings) -> None:
        """Score by other criteria from here on."""
        self.scorer = scorer
        self._settings = settings
        self._annotations = Annotations(settings.redactor, openinference=settings.openinference)

    def interrupt(self) -> None:
        """Score no more: trajectories that close from here on are `incomplete`. From any thread."""
        self._is_interrupted = True

    def give_up(self) -> None:
        """Stop the current trajectory before its results leave the scorer. From any thread."""
        self._is_given_up = True

    def finish(self, trajectory: Trajectory, now_ns: int, due_ns: int) -> None:
        """Score a trajectory that fell due at `due_ns`. Raises `GivenUp` where another thread has taken over meanwhile."""
        parts = self._parts
        trajectory = with_failures(self._run_names.settled(trajectory), self.scorer.kinds)
        lacking: Reason = "incomplete"
        # Its spans may be in requests that passed unread.
        if self.unread_until_ns is not None and (
            trajectory.opened_ns <= self.unread_until_ns + parts.assembler.settings.run_end_grace
        ):
            trajectory, lacking = replace(trajectory, incomplete=_UNREAD), "overload"
        sign = trajectory.split_sign
        # A trajectory that lacks spans for another reason shows the same signs.
        is_counted = trajectory.scope == "trace" and trajectory.incomplete == sign and bool(sign or trajectory.calls)
        if is_counted and self._split_detector.add(now_ns, has_sign=sign is not None):
            self._parts.on_split(self._split_detector.share)
        completed = parts.earlier_traces.with_earlier(trajectory) if self.scorer.wants_earlier_values else trajectory
        started = parts.clock()
        # Given up for want of memory: it is only a part, and scoring takes memory too.
        is_overloaded = parts.assembler.eviction.is_overloaded or trajectory.closed_because == "memory"
        if is_overloaded:
            results = self.scorer.overloaded(completed)
        else:
            parts.ledger.begin_work(trajectory.closed_id)
            results = () if self._is_interrupted else self.scorer.score(completed, lacking=lacking)
            # Asked again: a trajectory that was cut off in the middle is not scored either.
            if self._is_interrupted:
                self.interrupted += 1
                results = self.scorer.interrupted(completed)
            if self._is_given_up:
                raise GivenUp
            for outcome, count in self.scorer.reported_errors.items():
                if count:
                    self._metrics.reported_errors.add(count, (outcome,))
        if trajectory.earlier_turns is not None:
            # Only evaluators look at it, and it may be long.
            trajectory = replace(trajectory, earlier_turns=None)
        ended = parts.clock()
        self._metrics.scoring_duration.record((ended - started) / 1e9)
        self._metrics.scoring_delay.record((max(0, now_ns - due_ns) + ended - started) / 1e9)
        inquiries = self.scorer.inquiries(trajectory, lacking=lacking)
        try:
            if completed.earlier is not None:
                # For later traces of the conversation.
                if is_overloaded:
                    parts.earlier_traces.forget(completed)
                else:
                    found = (None, None) if self._is_interrupted else (self.scorer.seen, self.scorer.effects)
                    parts.earlier_traces.remember(completed, *found)
                self._egress.shown += parts.earlier_traces.take_changes()
            # Not before: a trajectory that is stuck in an evaluator is not closed.
            self._egress.closed_entries += parts.assembler.take_released()
            scorecard = Scorecard(
                trajectory=trajectory, results=results, scored_at_ns=now_ns, awaits_judges=bool(inquiries)
            )
            self._publish(scorecard)
        finally:
            # Judges answer late; nothing waits for them.
            if inquiries:
                parts.judging.put(trajectory, inquiries)

    def take_answers(self, now_ns: int) -> None:
        """Make scorecards of the answers that judges have given."""
        self._answers.extend(self._parts.judging.take())
        while self._answers:
            # Taken out first: one that fails does not stop the next.
            answers = self._answers.popleft()
            results = self.scorer.judged(answers)
            self._publish(
                Scorecard(trajectory=answers.trajectory, results=results, scored_at_ns=now_ns, by_judges=True)
            )

    def _publish(self, scorecard: Scorecard) -> None:
        for consume in self._consumers:
            consume(scorecard)

    def _annotate(self, scorecard: Scorecard) -> None:
        """Release the held spans of a trace with their scores, and decide which destinations get the trace."""
        is_held = scorecard.trajectory.scope == "trace" and not scorecard.by_judges
        held = self._parts.hold.take(scorecard.trajectory.trace_id) if is_held else []
        try:
            # Runs of a trace that still waits decide nothing: its other runs may fail.
            if scorecard.trajectory.closed_because != "parent_missing":
                self._parts.keepers.decide(scorecard, [span.raw for span in held])
        finally:
            self._release(scorecard, held)

    def _release(self, scorecard: Scorecard, held: Sequence[HeldSpan]) -> None:
        annotated: list[SpanRef] = []
        try:
            taken = {span.ref.span_id: taken_slots(span.raw) for span in held} if self._settings.openinference else None
            attributes = self._annotations.collect(scorecard, taken) if held else {}
            for span in held:
                if added := attributes.get(span.ref.span_id):
                    span.raw = annotate(span.raw, added)
                    annotated.append(span.ref)
        finally:
            # A fault costs spans their scores, never the spans.
            self._egress.release(held)
        # Scorecard spans are counted where they are written; a judged span that neither form reaches is missed.
        if annotated:
            self._metrics.annotations.add(len(annotated), ("attribute",))
        if self._settings.annotate == "hold" and scorecard.trajectory.scope == "trace":
            judged = {result.target for result in scorecard.results if result.target and result.enforce == "live"}
            self._metrics.annotations.add(len(judged.difference(annotated)), ("missed",))

    def _watch(self, scorecard: Scorecard) -> None:
        regressions = self._parts.watcher.observe(scorecard) if self._parts.watcher is not None else ()
        if regressions:
            self._parts.on_regressions(regressions)

    def _notify(self, scorecard: Scorecard) -> None:
        """Hand on failed results that are announced, one for each criterion, agent and tool."""
        run, marked = scorecard.trajectory, self._settings.notify
        notices: dict[tuple[str | None, ...], Notice] = {}
        for verdict, subjects in scorecard.verdicts.items() if marked else ():
            for place, found in enumerate(verdict.findings):
                key = found.criterion, verdict.agent, verdict.tool
                is_announced = found.word == "fail" and found.enforce == "live" and found.criterion in marked
                if is_announced and key not in notices:
                    notices[key] = Notice(
                        service=run.service,
                        agent=verdict.agent,
                        tool=verdict.tool,
                        criterion=found.criterion,
                        trace_id=run.trace_id,
                        explanation=self._settings.redactor.explain(subjects[0].results[place].outcome),
                        at_ns=scorecard.scored_at_ns,
                        is_marked=marked[found.criterion],
                    )
        if notices:
            self._parts.on_notices(tuple(notices.values()))

"""Evaluators of plug-ins and files: nothing that one of them does stops, delays or changes anything else.

Each call runs on a spare thread with a deadline, on copies of the trajectory and the reference. An exception and an unsound outcome
become an `EvaluationError`; long texts are cut. After three late calls an evaluator is off. Nothing helps against C code
that crashes the process or never releases the interpreter's lock.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from queue import Empty, SimpleQueue
from types import GeneratorType
from typing import TypeVar, cast

from msgspec import Struct
from msgspec.structs import force_setattr

from toolgauge.model.errors import EvaluationError
from toolgauge.model.expected import Expected
from toolgauge.model.json import JsonObject
from toolgauge.model.judging import Judged, JudgeEvaluator, Question
from toolgauge.model.outcomes import Level, NotEvaluated, Outcome
from toolgauge.model.ports import Evaluator
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.criterion import Criterion
from toolgauge.score.scorer import cut, problem_of, raised

_T = TypeVar("_T")
_LIMIT_S = 10.0
# After so many late calls an evaluator is off.
_MAX_LATE = 3
_OFF = NotEvaluated(reason="overload", explanation="switched off: the evaluator did not end in time")


def _timeout() -> EvaluationError:
    return EvaluationError("timeout", "the evaluator did not end in time and was left alone")


class _Copies:
    """A trajectory and a reference for one plug-in to see; values that cannot change are the originals."""

    def __init__(self, trajectory: Trajectory, expected: Expected | None) -> None:
        self.trajectory, self.expected = copied((trajectory, expected))
        self._calls = {id(own): call for own, call in zip(self.trajectory.calls, trajectory.calls, strict=True)}

    def original(self, call: ToolCall | None) -> ToolCall | None:
        if call is not None and id(call) not in self._calls:
            raise EvaluationError("invalid_outcome", "the evaluator judged a call that is not there")
        return None if call is None else self._calls[id(call)]


def copied(value: _T, known: dict[int, object] | None = None) -> _T:
    """Copy structs and containers, however deep; the same object twice stays one."""
    known = {} if known is None else known
    identity = id(value)
    if identity in known:
        return cast("_T", known[identity])  # the copy of an object is of its type
    made: object = value
    if isinstance(value, dict):
        made = {key: copied(entry, known) for key, entry in cast("dict[object, object]", value).items()}
    elif isinstance(value, list | tuple):
        entries = [copied(entry, known) for entry in cast("Sequence[object]", value)]
        made = entries if isinstance(value, list) else tuple(entries)
    elif isinstance(value, Struct):
        made = copy(value)
        for name in value.__struct_fields__:
            force_setattr(made, name, copied(getattr(value, name), known))
    else:
        return value
    known[identity] = made
    return cast("_T", made)  # as above


class _PlugIn:
    """The common part of both kinds of evaluators; all other members come from the evaluator itself."""

    def __init__(self, evaluator: Evaluator | JudgeEvaluator, on_off: Callable[[str], None], limit_s: float) -> None:
        self._evaluator = evaluator
        self._on_off = on_off
        self._limit_s = limit_s
        self._late = 0
        # Gets the end of the newest call.
        self._ended = SimpleQueue[EvaluationError | None]()
        # When it was switched off.
        self.off_since_ns: int | None = None
        self.version: str = evaluator.version
        self.level: Level = evaluator.level

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._evaluator, name)

    def call(self, call: Callable[[], _T]) -> _T:
        """Make a call on a thread of its own; raise `EvaluationError` when it raises anything or is late."""
        found: list[_T] = []
        ended = self._ended = SimpleQueue[EvaluationError | None]()

        def run() -> None:
            failure: EvaluationError | None = None
            try:
                found.append(call())
            except BaseException as error:  # noqa: BLE001 (plug-ins may raise anything; it becomes an outcome)
                outcome = raised(error, __file__)
                failure = EvaluationError(outcome.error_type, outcome.message)
            ended.put(failure)

        # A daemon, as are the threads that a call starts: the process ends without them.
        thread = threading.Thread(target=run, name="plug-in", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # At its end the interpreter starts no thread any more.
            run()
        try:
            failure = ended.get(timeout=self._limit_s)
        except Empty:
            failure = _timeout()
            self._late += 1
            if self._late == _MAX_LATE:
                self.off_since_ns = time.time_ns()
                self._on_off(f"did not end within {self._limit_s:g} s, {_MAX_LATE} times")
        if failure is not None:
            raise failure
        return found[0]

    def cut_off(self) -> None:
        """Wait no longer for a call under way. From any thread."""
        self._ended.put(_timeout())


class PlugInEvaluator(_PlugIn):
    """Implements `model.ports.Evaluator` for an evaluator of a plug-in or file."""

    _evaluator: Evaluator

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Judged]:
        """Yield sound outcomes; raise `EvaluationError`."""
        if self.off_since_ns is not None:
            yield None, _OFF
            return
        outcomes: list[Judged] = []
        failure: EvaluationError | None = None
        try:
            self.call(partial(self._collect, trajectory, expected, outcomes))
        except EvaluationError as error:
            failure = error
        # A copy: a late call may still be adding to it.
        yield from tuple(outcomes)
        if failure is not None:
            raise failure

    def _collect(self, trajectory: Trajectory, expected: Expected | None, outcomes: list[Judged]) -> None:
        copies = _Copies(trajectory, expected)
        # One for each call and one for the trajectory.
        most = len(trajectory.calls) + 1
        evaluations = self._evaluator.evaluate(copies.trajectory, copies.expected)
        for evaluation in evaluations:
            # Older plug-ins yield `None` between outcomes.
            if evaluation is not None:
                call, outcome = evaluation
                outcomes.append((copies.original(call), _sound(outcome)))
            if len(outcomes) > most:
                outcomes.clear()
                raise EvaluationError("invalid_outcome", "the evaluator yielded more outcomes than there are calls")
        if isinstance(evaluations, GeneratorType):
            evaluations.close()


class PlugInJudgeEvaluator(_PlugIn):
    """Implements `model.judging.JudgeEvaluator` for a judge evaluator of a plug-in or file."""

    _evaluator: JudgeEvaluator

    def questions(
        self, trajectory: Trajectory, expected: Expected | None
    ) -> Iterator[tuple[ToolCall | None, Question | Outcome]]:
        """Yield questions and sound outcomes; raise `EvaluationError`."""
        if self.off_since_ns is not None:
            yield None, _OFF
            return
        copies = _Copies(trajectory, expected)
        steps = self.call(lambda: iter(self._evaluator.questions(copies.trajectory, copies.expected)))

        def following() -> tuple[ToolCall | None, Question | Outcome] | None:
            asking = next((one for one in steps if one is not None), None)
            if asking is None:
                return None
            call, asked = asking
            return copies.original(call), asked if isinstance(asked, Question) else _sound(asked)

        while (found := self.call(following)) is not None:
            yield found

    def outcome(self, question: Question, verdict: JsonObject) -> Outcome:
        """Return a sound outcome; raise `EvaluationError`."""
        return self._made(lambda: self._evaluator.outcome(question, verdict))

    def joined(self, outcomes: Sequence[Outcome]) -> Outcome:
        """Return a sound outcome; raise `EvaluationError`."""
        return self._made(lambda: self._evaluator.joined(copied(outcomes)))

    def _made(self, make: Callable[[], Outcome]) -> Outcome:
        return self.call(lambda: _sound(make())) if self.off_since_ns is None else _OFF


def _sound(outcome: object) -> Outcome:
    problem = problem_of(outcome)
    if problem:
        raise EvaluationError("invalid_outcome", problem)
    return cut(cast("Outcome", outcome))  # `problem_of` has seen that it is one


def on_spare_thread(
    evaluator: Evaluator | JudgeEvaluator,
    on_off: Callable[[str], None] = lambda _reason: None,
    *,
    limit_s: float = _LIMIT_S,
) -> Evaluator | JudgeEvaluator:
    """Wrap an evaluator unless it is part of toolgauge; `on_off` gets the reason when it is switched off."""
    if type(evaluator).__module__.partition(".")[0] == "toolgauge" or isinstance(evaluator, _PlugIn):
        return evaluator
    if hasattr(evaluator, "questions"):
        return cast("JudgeEvaluator", PlugInJudgeEvaluator(evaluator, on_off, limit_s))  # its version is its own
    return cast("Evaluator", PlugInEvaluator(evaluator, on_off, limit_s))  # as above


def plug_ins(criteria: Iterable[Criterion]) -> Iterator[tuple[str, _PlugIn]]:
    """Yield the evaluators of plug-ins and files with the names of their criteria."""
    for criterion in criteria:
        evaluator: object = criterion.evaluator
        if isinstance(evaluator, _PlugIn):
            yield criterion.name, evaluator

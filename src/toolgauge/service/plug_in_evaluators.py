"""Evaluators of plug-ins and files: nothing that one of them does stops, delays or changes anything else.

Each call runs on a spare thread with a deadline, on copies of the trajectory and the reference. An exception, a changed copy and an
unsound outcome become an `EvaluationError`; long texts are cut. After three late calls an evaluator is off. Nothing helps against C code
that crashes the process or never releases the interpreter's lock.
"""

import ctypes
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from pathlib import Path
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
from toolgauge.score.verdicts import cut, problem_of, raised

_T = TypeVar("_T")
_LIMIT_S = 10.0
# How long a late call has to end when it is told to.
_LAST_WAIT_S = 0.1
# A wait for a call, in parts: while the whole process is stopped, only one of them passes.
_WAITS = 10
# After so many late calls, or so many in a row that keep so much memory, an evaluator is off.
_MAX_FAULTS = 3
_KEPT_BYTES = 32 << 20
_OFF = NotEvaluated(reason="overload", explanation="switched off: the evaluator did not end in time, or kept memory")
_STATM = Path("/proc/self/statm")
_exit_process = os._exit  # pyright: ignore[reportPrivateUsage] - its public name


class _LateError(EvaluationError):
    """A call was not over at its deadline."""

    def __init__(self) -> None:
        super().__init__("timeout", "the evaluator did not end in time and was left alone")


class _ArrivedError(Exception):
    """An exception that a thread has raised in itself."""


def _raise_in(thread_id: int | None, error: "ctypes.py_object[type[BaseException]] | None") -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id or 0), error)


class _SpareThread(threading.Thread):
    """Makes one call after the other."""

    def __init__(self) -> None:
        # A daemon, as are the threads that a call starts: the process ends without them.
        super().__init__(name="plug-in", daemon=True)
        self.process = os.getpid()
        self.is_busy = False
        self.calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self.ends: SimpleQueue[EvaluationError | None] = SimpleQueue()

    def run(self) -> None:
        """Make calls until there is a `None` in their place."""
        # `give_up` may strike after the call, too.
        with suppress(SystemExit):
            while (call := self.calls.get()) is not None:
                failure: EvaluationError | None = None
                try:
                    call()
                except EvaluationError as error:
                    failure = error.with_traceback(None)
                except BaseException as error:  # noqa: BLE001 (plug-ins may raise anything; it becomes an outcome)
                    outcome = raised(error, __file__)
                    failure = EvaluationError(outcome.error_type, outcome.message)
                del call
                self.ends.put(failure)

    def give_up(self) -> None:
        """End a call that computes, once; one that waits or catches everything keeps the thread, which then does nothing more."""
        self.calls.put(None)
        _raise_in(self.ident, ctypes.py_object(SystemExit))
        self.join(_LAST_WAIT_S)
        # Up to Python 3.12, an exception that never arrives slows all threads down, and stops those that are traced: what takes its
        # mark away is another one that arrives.
        _raise_in(self.ident, None)
        with suppress(_ArrivedError):
            _raise_in(threading.get_ident(), ctypes.py_object(_ArrivedError))
            while True:
                time.sleep(0)


def _exit(status: int) -> None:
    """Stand in for `os._exit`, which would end a command before its report: a plug-in ends its call with it."""
    thread = threading.current_thread()
    if isinstance(thread, _SpareThread) and thread.process == os.getpid():
        raise SystemExit(status)
    _exit_process(status)


class SpareThreads:
    """Makes calls into plug-ins, each on an idle thread, else on a new one."""

    def __init__(self, limit_s: float = _LIMIT_S) -> None:
        self.limit_s = limit_s
        self._idle: list[_SpareThread] = []
        self._is_ended = False
        # `end` may never be called.
        weakref.finalize(self, _end, self._idle)

    def run(self, call: Callable[[], _T]) -> _T:
        """Return what the call returns; raise `EvaluationError` when it raises anything or is late."""
        found: list[_T] = []
        streams = {name: getattr(sys, name) for name in ("stdout", "stderr")}
        recursion = sys.getrecursionlimit()
        thread = self._thread()
        thread.is_busy = True
        failure: EvaluationError | None = _LateError()
        try:
            thread.calls.put(lambda: found.append(call()))
            for _ in range(_WAITS):
                with suppress(Empty):
                    failure = thread.ends.get(timeout=self.limit_s / _WAITS)
                    break
        finally:
            thread.is_busy = False
            for name, stream in streams.items():
                if getattr(sys, name) is None:
                    setattr(sys, name, stream)
            sys.setrecursionlimit(max(recursion, sys.getrecursionlimit()))
        if isinstance(failure, _LateError):
            thread.give_up()
        else:
            self._idle.append(thread)
        if self._is_ended:
            _end(self._idle)
        if failure is not None:
            raise failure
        return found[0]

    def end(self) -> None:
        """Keep no idle thread from here on."""
        self._is_ended = True
        _end(self._idle)

    def _thread(self) -> _SpareThread:
        while self._idle:
            thread = self._idle.pop()
            # Threads do not survive a fork.
            if thread.process == os.getpid() and thread.is_alive():
                return thread
        os._exit = _exit  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue] - its public name
        thread = _SpareThread()
        thread.start()
        return thread


def cut_off_calls() -> None:
    """Wait no longer for calls under way. From any thread."""
    for thread in threading.enumerate():
        if isinstance(thread, _SpareThread) and thread.is_busy:
            thread.ends.put(_LateError())


def _end(idle: list[_SpareThread]) -> None:
    while idle:
        idle.pop().calls.put(None)


class _Copies:
    """A trajectory and a reference for one plug-in to see; values that cannot change are the originals."""

    def __init__(self, trajectory: Trajectory, expected: Expected | None) -> None:
        self._originals = trajectory, expected
        self.trajectory, self.expected = copied(self._originals)
        self._calls = {id(own): call for own, call in zip(self.trajectory.calls, trajectory.calls, strict=True)}

    def original(self, call: ToolCall | None) -> ToolCall | None:
        if call is not None and id(call) not in self._calls:
            raise EvaluationError("invalid_outcome", "the evaluator judged a call that is not there")
        return None if call is None else self._calls[id(call)]

    def check(self) -> None:
        """Raise an error when something in the copies was changed."""
        if (self.trajectory, self.expected) != self._originals:
            raise EvaluationError("changed_trajectory", "the evaluator changed the trajectory or the reference")


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
    """What both kinds of evaluators have in common; all other members are those of the evaluator itself."""

    def __init__(
        self, evaluator: Evaluator | JudgeEvaluator, threads: SpareThreads, on_off: Callable[[str], None]
    ) -> None:
        self._evaluator = evaluator
        self._on_off = on_off
        self.threads = threads
        self._late = self._grown = 0
        # When it was switched off.
        self.off_since_ns: int | None = None
        self.version: str = evaluator.version
        self.level: Level = evaluator.level

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._evaluator, name)

    def call(self, call: Callable[[], _T]) -> _T:
        """Make a call on a spare thread; raise `EvaluationError`."""
        before = _resident_bytes()
        try:
            return self.threads.run(call)
        except _LateError:
            self._late += 1
            if self._late == _MAX_FAULTS:
                self._switch_off(f"did not end within {self.threads.limit_s:g} s, {_MAX_FAULTS} times")
            raise
        finally:
            # Once for a model that it loads; again and again for what it never lets go of.
            self._grown = self._grown + 1 if _resident_bytes() - before > _KEPT_BYTES else 0
            if self._grown == _MAX_FAULTS:
                self._switch_off(f"kept more than {_KEPT_BYTES >> 20} MiB of memory, {_MAX_FAULTS} times in a row")

    def _switch_off(self, reason: str) -> None:
        self.off_since_ns = time.time_ns()
        self._on_off(reason)


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
        try:
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
        finally:
            try:
                copies.check()
            except EvaluationError:
                outcomes.clear()
                raise


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
                copies.check()
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


def _resident_bytes() -> int:
    """Return the memory in use; 0 where the system does not report it this way. Not from `process`, which loads asyncio."""
    try:
        return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _sound(outcome: object) -> Outcome:
    problem = problem_of(outcome)
    if problem:
        raise EvaluationError("invalid_outcome", problem)
    return cut(cast("Outcome", outcome))  # `problem_of` has seen that it is one


def on_spare_thread(
    evaluator: Evaluator | JudgeEvaluator, threads: SpareThreads, on_off: Callable[[str], None] = lambda _reason: None
) -> Evaluator | JudgeEvaluator:
    """Wrap an evaluator unless it is part of toolgauge; `on_off` gets the reason when it is switched off."""
    if type(evaluator).__module__.partition(".")[0] == "toolgauge" or isinstance(evaluator, _PlugIn):
        return evaluator
    if hasattr(evaluator, "questions"):
        return cast("JudgeEvaluator", PlugInJudgeEvaluator(evaluator, threads, on_off))  # its version is its own
    return cast("Evaluator", PlugInEvaluator(evaluator, threads, on_off))  # as above


def plug_ins(criteria: Iterable[Criterion]) -> Iterator[tuple[str, _PlugIn]]:
    """Yield the evaluators of plug-ins and files with the names of their criteria."""
    for criterion in criteria:
        evaluator: object = criterion.evaluator
        if isinstance(evaluator, _PlugIn):
            yield criterion.name, evaluator

"""Asks a running process to learn: begin, look how far it is, end and get what was learned.

A process that does not answer for a moment, or a connection that breaks, costs nothing: it is asked again.
"""

import time
from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Struct

from toolgauge.model.errors import ToolgaugeError
from toolgauge.model.learning import BeginLearning, EndLearning, Learned, LearningState
from toolgauge.net.admin_client import ask, not_toolgauge
from toolgauge.offline.learn.learner import Options

_MAX_BYTES = 64 << 20
_AGAIN_S = 1.0
_PATIENCE_S = 60.0
_Answer = TypeVar("_Answer", bound=Struct)
_T = TypeVar("_T")


class _Begun(Struct):
    id: str


class _State(Struct):
    learning: LearningState | None


class _Ended(Struct):
    learned: Learned | None


class LiveClient:
    """Learns in the process whose admin endpoint is at `admin`. Its methods raise `ToolgaugeError`."""

    def __init__(self, admin: str, token: str | None, *, patience_s: float = _PATIENCE_S) -> None:
        self._admin = admin
        self._token = token
        self._patience_s = patience_s
        self._id = ""

    def begin(self, duration_ns: int) -> None:
        """Have the process begin to learn."""
        try:
            self._id = self._asked("/learn", _Begun, BeginLearning(duration_ns=duration_ns)).id
        except ToolgaugeError as error:
            if "no such path" not in error.message:
                raise
            hint = "that process is older than this command: it cannot learn"
            raise ToolgaugeError(error.message, hint=hint) from error

    def state(self) -> LearningState:
        """Return how far it is."""
        answer = self._asked_again(lambda: self._asked(f"/learning?id={self._id}", _State))
        return self._kept(answer.learning)

    def end(self, options: Options) -> Learned:
        """End learning, and return what was learned."""
        wanted = EndLearning(
            id=self._id,
            min_runs=options.requirements.runs,
            tolerance=options.requirements.tolerance,
            false_alarms=options.most_alarms,
        )
        answer = self._asked_again(lambda: self._asked("/learned", _Ended, wanted))
        return self._kept(answer.learned)

    def _kept(self, answered: _T | None) -> _T:
        if answered is None:
            raise ToolgaugeError(
                f"`{self._admin}` has lost what it learned: it was restarted, or not asked for five minutes",
                hint="begin again",
            )
        return answered

    def _asked(self, path: str, type_: type[_Answer], wanted: Struct | None = None) -> _Answer:
        body = None if wanted is None else msgspec.json.encode(wanted)
        answered = ask(self._admin, path, token=self._token, max_bytes=_MAX_BYTES, body=body)
        try:
            return msgspec.json.decode(answered, type=type_)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise not_toolgauge(self._admin) from error

    def _asked_again(self, question: Callable[[], _Answer]) -> _Answer:
        until_s = time.monotonic() + self._patience_s
        while True:
            try:
                return question()
            except ToolgaugeError:
                if time.monotonic() > until_s:
                    raise
            time.sleep(_AGAIN_S)

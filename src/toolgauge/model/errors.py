"""Our exceptions. People see a `ToolgaugeError` as `error: ...`, with an optional `hint: ...`; the others become outcomes or counters."""

import threading
from typing import Literal, TypeAlias

# Reasons of permanent refusals: bytes that are not OTLP, too many fields, another signal, unknown JSON keys, an
# unreadable compression, or a broken rule of the transport.
InvalidReason: TypeAlias = Literal[
    "undecodable", "too_many_fields", "wrong_signal", "unknown_keys", "compression", "transport"
]


class ToolgaugeError(Exception):
    """An error that a person can act on."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint is not None:
            # For programs: a traceback shows it below the error.
            self.add_note(f"hint: {hint}")


class ConfigError(ToolgaugeError):
    """A configuration, criteria or reference file is wrong: exit code 2."""


class RecordingError(ToolgaugeError):
    """A recorded file cannot be read: exit code 1."""


class StartError(ToolgaugeError):
    """The process cannot start on this machine as configured: exit code 1."""


class InUseError(StartError):
    """The state directory is another process's, for as long as that runs."""


class DecodeError(Exception):
    """Bytes that cannot be decoded."""

    def __init__(self, message: str, *, reason: InvalidReason = "undecodable") -> None:
        super().__init__(message)
        self.reason: InvalidReason = reason


class SchemaError(Exception):
    """The JSON Schema of a tool cannot be checked against; the text names a place in it, and holds no value."""


class StateError(Exception):
    """The state file cannot be read or written. One that `is_damaged` is broken inside."""

    def __init__(self, message: str, *, is_damaged: bool = False) -> None:
        super().__init__(message)
        self.is_damaged = is_damaged


class ExpressionError(Exception):
    """An expression could not be evaluated. The text holds no value from a trajectory."""


class EvaluationError(Exception):
    """An evaluator of a plug-in or file failed; becomes the outcome `Errored` with these two fields. The text holds no value."""

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.message = message


def is_interrupt(error: BaseException) -> bool:
    """Return whether a person pressed Ctrl-C: Python raises that on the main thread only, a plug-in may raise it anywhere."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


class JudgeCallError(Exception):
    """A call to a judge's provider failed. No text quotes prompt, reply or key; `retry_after_s` is the wait that the provider asked for."""

    def __init__(self, error_type: str, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.message = message
        self.retry_after_s = retry_after_s

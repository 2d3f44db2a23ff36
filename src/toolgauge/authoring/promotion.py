"""A failing run -> a case to be corrected: the calls that no criterion faults are expected, the others are shown to a person.

What a failing run did is no reference. As it is written, its case fails for that run, and for any that does the same: the calls
at fault are not expected, and where none is, a call stands in the list that nobody makes, until a person has corrected it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from toolgauge.authoring.runs import Fault, RecordedCall, RecordedRun

# A call that no run makes: the case fails until somebody has put the right calls in its place.
PLACEHOLDER = "correct_this_case"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The calls of a failing run, and for each why it may be wrong; empty for one that nothing faults."""

    calls: tuple[RecordedCall, ...]
    doubts: tuple[tuple[str, ...], ...]
    # What failed of the run as a whole.
    whole: tuple[str, ...]

    @property
    def needs_placeholder(self) -> bool:
        """Whether nothing would be expected, or just what the run has done."""
        doubted = [call for call, doubts in zip(self.calls, self.doubts, strict=True) if doubts]
        return len(doubted) == len(self.calls) or all(call.failure is not None for call in doubted)


def judged(run: RecordedRun) -> Judged:
    """Find the calls of a run that are at fault."""
    doubts = [tuple(_doubts(call, run.faults)) for call in run.calls]
    whole = tuple(dict.fromkeys(_words(fault) for fault in run.faults if not _is_of_any(fault, run.calls)))
    calls = [_as_made(call) if doubted else call for call, doubted in zip(run.calls, doubts, strict=True)]
    return Judged(calls=tuple(calls), doubts=tuple(doubts), whole=whole)


def _as_made(call: RecordedCall) -> RecordedCall:
    """Show a call as it was made, but for secrets: a value that came from nowhere is what may have to be corrected."""
    return replace(call, free={place: freedom for place, freedom in call.free.items() if freedom.is_certain})


def _doubts(call: RecordedCall, faults: Sequence[Fault]) -> Iterator[str]:
    if call.failure is not None:
        yield call.failure
    yield from dict.fromkeys(_words(fault) for fault in faults if fault.call == call.key)


def _is_of_any(fault: Fault, calls: Sequence[RecordedCall]) -> bool:
    return fault.call is not None and any(call.key == fault.call for call in calls)


def _words(fault: Fault) -> str:
    return f"{fault.criterion}: {fault.explanation}"

"""HTML for the output of a notebook's cell: verdicts, calls, expected beside actual, as the web view shows them.

It stands alone: its style reaches nothing but itself, and it has no script and loads nothing. Texts come from spans and are escaped.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from toolgauge.model.outcomes import Result
from toolgauge.model.trajectory import Trajectory
from toolgauge.report.html import Templates, static_file
from toolgauge.report.trajectory_view import ShownTrajectory, TrajectoryWriter

_MAX_TRAJECTORIES = 20
_MAX_OPEN = 3
_CALLS = 50
_MAX_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One trajectory of a cell's output."""

    trajectory: Trajectory
    results: Sequence[Result]
    passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    trajectory: Trajectory
    shown: ShownTrajectory
    calls: str
    passed: bool
    is_open: bool
    prefix: str


class NotebookWriter:
    """Writes the trajectories of one evaluation."""

    def __init__(self, writer: TrajectoryWriter) -> None:
        self._writer = writer

    def html(self, title: str, parts: Sequence[Part], *, passed: bool, note: str = "") -> str:
        """Write trajectories below a title; those that did not pass come first, and the first ones are open."""
        first = sorted(parts, key=lambda part: part.passed)[:_MAX_TRAJECTORIES]
        content = Templates().fragment(
            "notebook.html",
            title=title,
            note=note,
            passed=passed,
            trajectories=[self._shown(part, is_open=number < _MAX_OPEN) for number, part in enumerate(first)],
            more=len(parts) - len(first),
        )
        return f'<div class="toolgauge"><style>{static_file("notebook.css").decode()}</style>\n{content}</div>'

    def _shown(self, part: Part, *, is_open: bool) -> _Shown:
        names = [call.name for call in part.trajectory.calls[:_MAX_NAMED]]
        more = len(part.trajectory.calls) - len(names)
        return _Shown(
            trajectory=part.trajectory,
            shown=self._writer.shown(part.trajectory, part.results, per_page=_CALLS),
            calls=", ".join([*names, f"and {more} more"] if more else names) or "no calls",
            passed=part.passed,
            is_open=is_open and (not part.passed or len(part.trajectory.calls) <= _MAX_NAMED),
            prefix=f"tg-{part.trajectory.trace_id[:16]}-",
        )

"""`coverage`: how much of a trajectory could be looked at? Needs no reference."""

from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

from toolgauge.model.expected import Expected
from toolgauge.model.outcomes import Level, Outcome, Reason, Scored
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import Trajectory
from toolgauge.model.unobserved import OBSERVABLE, UNOBSERVED, Observed
from toolgauge.score.selection import CallSelection, nothing_to_judge

# The same object for all trajectories: an outcome that is known needs no check, and is written once.
_ALL = Scored(value=1.0, explanation="arguments, end and definition were seen of all calls")
_WORDS: dict[Reason, str] = {
    "arguments_not_recorded": "arguments not recorded",
    "redacted": "arguments redacted",
    "truncated": "arguments cut off",
    "unparsable": "arguments unreadable",
    "results_not_recorded": "end not seen",
    "no_tool_offer": "no tools on offer recorded",
    "no_schema": "no schema of the tool recorded",
    "no_content": "call not recorded at all",
}


class Coverage(CallSelection):
    """The share of what can be seen of the calls that was seen: of each its arguments, its end, and the definition of its tool.

    A model call that asked for tools without a record of which counts as one call of which nothing was seen. Results and
    messages are not looked at: they are not read for every trajectory.

    Parts: `calls`, and for each reason how many things it hid.
    """

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"
    needs_content: ClassVar[bool] = False
    # It judges what was recorded of this trajectory.
    accepts_recent_offer: ClassVar[bool] = False

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002 (no reference needed)
        """Yield one outcome for the trajectory."""
        yield None, self._outcome(trajectory)

    def _outcome(self, trajectory: Trajectory) -> Outcome:
        calls, hidden = self.calls(trajectory), trajectory.hidden_turns
        if not calls and not hidden:
            return nothing_to_judge(trajectory)
        observed = Observed(trajectory)
        missing: Counter[Reason] = Counter([reason for call in calls for reason in observed.missing(call)])
        if hidden:
            missing["no_content"] = OBSERVABLE * hidden
        if not missing:
            return _ALL
        things = OBSERVABLE * (len(calls) + hidden)
        seen = things - missing.total()
        reasons: list[Reason] = [reason for reason in UNOBSERVED if missing[reason]]
        listed = "; ".join(f"{_WORDS[reason]}: {missing[reason]}" for reason in reasons)
        return Scored(
            value=seen / things,
            explanation=f"{seen} of {things} things were seen of {len(calls) + hidden} calls; {listed}",
            parts={"calls": len(calls) + hidden, **{reason: missing[reason] for reason in reasons}},
        )

"""`tool_success`: did the call do its work? Needs no reference."""

from collections import Counter
from collections.abc import Iterator
from typing import ClassVar, Literal

from msgspec.structs import replace

from toolgauge.model.content import NotRecorded
from toolgauge.model.expected import Expected
from toolgauge.model.observations import OTHER_ERROR
from toolgauge.model.outcomes import ERROR_RULE, Difference, Level, NotEvaluated, Outcome, Scored, Side
from toolgauge.model.ports import Evaluation
from toolgauge.model.recoveries import made_good, repaired_code
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.error_texts import ERROR_PAGE, ERROR_TEXT, with_error_texts
from toolgauge.score.selection import CallSelection, not_executed, nothing_to_judge, shown, was_stopped

_BY_RESULT = {
    ERROR_TEXT: ": all its answers in the run are errors",
    ERROR_PAGE: ": its answer is a page titled `Error NNN`",
}


class ToolSuccess(CallSelection):
    """1 for a call that was executed without an error, 0 for one that failed or was rejected.

    A call that is known only from the model's request succeeded when an answer was seen; without one
    there is nothing to tell (`results_not_recorded`). A call that waits for a person or was refused by one did not run
    (`not_executed`).

    Calls of a tool that answered with an error text at least twice in the run and never worked failed, and so did a call
    whose answer is a page titled `Error NNN`.

    `retries: ignore` leaves out failed calls where the same agent called the same tool with success in a later turn;
    that success has the part `recovered_failures`, how many failures it made good. A failed step of a code agent is left
    out where the same agent ran the same cell with success in a later step.
    """

    version: ClassVar[str] = "4"
    level: ClassVar[Level] = "call"
    binary: ClassVar[bool] = True
    judges_code: ClassVar[bool] = True

    retries: Literal["count", "ignore"] = "count"

    @property
    def needs_whole(self) -> bool:
        """Whether calls that were not seen could change the outcome: one of them may have made a failure good."""
        return self.retries == "ignore"

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002 (no reference needed)
        """Yield one outcome a call."""
        found = with_error_texts(trajectory)
        calls = self.calls(found.trajectory)
        if not calls:
            yield None, nothing_to_judge(trajectory)
        recorded = {call.order: call for call in trajectory.calls}
        recovered = made_good(calls) if self.retries == "ignore" else {}
        repaired = repaired_code(trajectory) if self.retries == "ignore" else frozenset[int]()
        recoveries = Counter([success.order for success in recovered.values()])
        # Of most calls the same is to be said: one object a tool costs less to make, check and write.
        succeeded = self._usual
        for call in calls:
            if call.order in recovered or call.order in repaired:
                continue
            if call.order in recoveries:
                yield recorded[call.order], _recovery(call, recoveries[call.order])
            elif call.order in found.shown:
                yield recorded[call.order], _with_error_text(call)
            elif call.error is None and call.state == "executed":
                outcome = succeeded.get(call.name) or succeeded.keep(call.name, _outcome(call))
                yield recorded[call.order], outcome
            else:
                yield recorded[call.order], _outcome(call)


def _recovery(call: ToolCall, failures: int) -> Outcome:
    outcome = _outcome(call)
    if not isinstance(outcome, Scored):
        return outcome
    explanation = f"{outcome.explanation}, after {failures} failed {'call' if failures == 1 else 'calls'} of it"
    return replace(outcome, explanation=explanation, parts={"recovered_failures": failures})


def _with_error_text(call: ToolCall) -> Outcome:
    # Rule: a single error text, or one of a tool that worked in the run, is shown and fails nothing.
    outcome = _outcome(call)
    if not isinstance(outcome, Scored):
        return outcome
    explanation = f"{outcome.explanation}; its answer reads like an error"
    return replace(outcome, explanation=explanation, parts={"error_text": 1})


def _outcome(call: ToolCall) -> Outcome:
    if was_stopped(call):
        return not_executed(call)
    name = shown(call.name)
    if call.error is not None:
        how = "was rejected" if call.state == "rejected" else "failed"
        named = f" with {shown(call.error.kind)}" if call.error.kind not in ("", OTHER_ERROR) else ""
        kind = _BY_RESULT.get(call.error.kind, named)
        message = Difference(where=call.name, rule=ERROR_RULE, actual=Side(value=call.error.message))
        return Scored(value=0.0, explanation=f"{name} {how}{kind}", differences=(message,))
    if call.state == "rejected":
        return Scored(value=0.0, explanation=f"{name} was requested and never executed: it was rejected")
    if call.state == "executed":
        return Scored(value=1.0, explanation=f"{name} was executed without an error")
    if isinstance(call.result, NotRecorded):
        return NotEvaluated(
            reason="results_not_recorded", explanation=f"{name} was requested; no execution and no answer was seen"
        )
    return Scored(value=1.0, explanation=f"{name} was answered without an error")

"""`tool_parameter_accuracy`: do the argument values of a call come from what the agent had been told? Asks a judge.

A call whose every value stands verbatim in what the user said or tools returned needs no judge.
"""

from typing import ClassVar

from toolgauge.model.content import Recorded
from toolgauge.model.outcomes import Outcome, Scored
from toolgauge.model.trajectory import ToolCall
from toolgauge.score import prompts
from toolgauge.score.judge_view import JudgeView
from toolgauge.score.judged import JudgedCalls, unreadable_arguments
from toolgauge.score.prompts import Prompt
from toolgauge.score.traced import is_traced

_PRECHECKED = Scored(
    value=1.0, explanation="every value stands verbatim in what the agent had been told", parts={"prechecked": 1}
)


class ToolParameterAccuracy(JudgedCalls):
    """1 when the judge says Yes or no value needs a judge, 0 for No."""

    prompt: ClassVar[Prompt] = prompts.TOOL_PARAMETER_ACCURACY
    version: ClassVar[str] = prompts.TOOL_PARAMETER_ACCURACY.version

    # Whether calls whose values can all be found are scored without asking.
    precheck: bool = True

    def clear(self, call: ToolCall, view: JudgeView) -> Outcome | None:
        """Return what is clear without a judge."""
        unreadable = unreadable_arguments(call)
        if unreadable is not None or not self.precheck:
            return unreadable
        arguments = call.arguments.value if isinstance(call.arguments, Recorded) else None
        if isinstance(arguments, dict) and is_traced(arguments, view, call.name):
            return _PRECHECKED
        return None

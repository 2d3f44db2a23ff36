"""`tool_selection_accuracy`: was it justified to call this tool at this point? Asks a judge."""

from typing import ClassVar

from toolgauge.score import prompts
from toolgauge.score.judged import JudgedCalls
from toolgauge.score.prompts import Prompt


class ToolSelectionAccuracy(JudgedCalls):
    """1 for Yes, 0 for No."""

    prompt: ClassVar[Prompt] = prompts.TOOL_SELECTION_ACCURACY
    version: ClassVar[str] = prompts.TOOL_SELECTION_ACCURACY.version

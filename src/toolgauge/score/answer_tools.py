"""Finds the tools by which a model gives its structured answer: frameworks offer them, and run nothing for them.

Pydantic AI's `final_result`, ADK's `set_model_response`, the Claude Agent SDK's `StructuredOutput`, and classes that LangChain and
Strands offer under the name of the answer's type.
"""

import re
from collections.abc import Iterator
from contextlib import suppress

from msgspec import DecodeError, json

from toolgauge.model.content import Recorded
from toolgauge.model.json import leaves
from toolgauge.model.trajectory import Trajectory

# The whole names of such tools, by their words, and what they begin with where there are several types of answers.
ANSWER_NAMES = frozenset(
    (
        *(("final", "result"), ("final", "answer"), ("final", "output"), ("final", "response")),
        *(("structured", "output"), ("structured", "response"), ("set", "model", "response"), ("json", "tool", "call")),
    )
)
ANSWER_PREFIX = ("final", "result")
# What LangChain and Strands answer to such a call.
_TAKEN = re.compile(r"Returning structured response\b|Successfully validated \S{1,200} structured output\b")


def answering_tools(trajectory: Trajectory) -> Iterator[str]:
    """Yield the names of tools whose calls were taken for the answer, whatever they are called."""
    last = max([call.turn for call in trajectory.calls], default=0)
    answers: list[object] | None = None
    for call in trajectory.calls:
        if isinstance(call.result, Recorded):
            text = next((leaf for leaf in leaves(call.result.value) if isinstance(leaf, str)), "")
            if _TAKEN.match(text) is not None:
                yield call.name
        elif call.turn == last and call.executed_by is None and isinstance(call.arguments, Recorded):
            answers = [*_answers(trajectory)] if answers is None else answers
            if call.arguments.value and call.arguments.value in answers:
                yield call.name


def _answers(trajectory: Trajectory) -> Iterator[object]:
    for run in trajectory.runs:
        if run.response is not None and run.response.lstrip().startswith("{"):
            with suppress(DecodeError, RecursionError):
                yield json.decode(run.response)

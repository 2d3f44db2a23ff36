"""The answers that an agent gave its user.

Frameworks offer tools for structured answers, and run nothing for them: Pydantic AI's `final_result`, ADK's `set_model_response`, the Claude Agent
SDK's `StructuredOutput`, and classes that LangChain and Strands offer under the name of the answer's type.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from operator import attrgetter

from msgspec import DecodeError, json

from toolgauge.model.content import Recorded
from toolgauge.model.json import leaves
from toolgauge.model.outcomes import NotEvaluated
from toolgauge.model.trajectory import Message, Trajectory

# So much of an answer is read.
LONGEST_ANSWER = 20_000


def answers(trajectory: Trajectory) -> list[Message]:
    """Return the answers in order; text beside a tool call counts only where no other text follows it."""
    found: list[Message] = []
    is_answered = False
    for message in trajectory.messages:
        if message.role == "user":
            is_answered = False
        elif message.role == "assistant" and message.text and not message.text.isspace():
            if is_answered:
                found.pop()
            found.append(message)
            is_answered = True
    return found


_NO_ANSWER = NotEvaluated(reason="no_answer", explanation="the run has no final answer")
_NOT_RECORDED = NotEvaluated(reason="no_content", explanation="no answer of the agent was recorded")


def no_answer(trajectory: Trajectory) -> NotEvaluated:
    """Return the outcome of a trajectory without any answer: the agent gave none, or none was recorded."""
    is_recorded = trajectory.messages and any(call.requested_by is not None for call in trajectory.calls)
    return _NO_ANSWER if is_recorded else _NOT_RECORDED


# The names of such tools as words; with several types of answers, names begin with these.
ANSWER_NAMES = frozenset(
    (
        *(("final", "result"), ("final", "answer"), ("final", "output"), ("final", "response")),
        *(("structured", "output"), ("structured", "response"), ("set", "model", "response"), ("json", "tool", "call")),
    )
)
ANSWER_PREFIX = ("final", "result")
_TURN = attrgetter("turn")
# What LangChain and Strands answer to such a call.
_TAKEN = re.compile(r"Returning structured response\b|Successfully validated \S{1,200} structured output\b")


def answering_tools(trajectory: Trajectory) -> Iterator[str]:
    """Yield the names of tools whose calls were taken for the answer, by any name."""
    last = max(map(_TURN, trajectory.calls), default=0)
    answers: list[object] | None = None
    for call in trajectory.calls:
        if isinstance(call.result, Recorded):
            for leaf in leaves(call.result.value):
                if isinstance(leaf, str):
                    # The first text decides.
                    if _TAKEN.match(leaf) is not None:
                        yield call.name
                    break
        elif call.turn == last and call.executed_by is None and isinstance(call.arguments, Recorded):
            if answers is None:
                answers = []
                for run in trajectory.runs:
                    if run.response is not None and run.response.lstrip().startswith("{"):
                        with suppress(DecodeError, RecursionError):
                            answers.append(json.decode(run.response))
            if call.arguments.value and call.arguments.value in answers:
                yield call.name

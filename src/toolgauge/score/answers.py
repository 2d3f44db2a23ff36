"""The answers that an agent gave its user: the last text before each message of the user, and the one at the end."""

from toolgauge.model.outcomes import NotEvaluated
from toolgauge.model.trajectory import Message, Trajectory


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


def no_answer(trajectory: Trajectory) -> NotEvaluated:
    """Return the outcome of a trajectory without any answer: there was none, or none was recorded."""
    if trajectory.messages and any(call.requested_by is not None for call in trajectory.calls):
        return NotEvaluated(reason="no_answer", explanation="the run has no final answer")
    return NotEvaluated(reason="no_content", explanation="no answer of the agent was recorded")

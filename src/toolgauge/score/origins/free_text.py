"""Texts in which an agent may write values of its own: code, and what it asks of another agent.

Arrives: a call and one of its text values. Leaves: whether the text is code or a prompt. Both are written by the agent: numbers and names
in them are its own, and an id that stands in an argument by itself is still looked for.
"""

import re
from functools import lru_cache

from toolgauge.model.content import Recorded
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.criterion import hands_over, name_words
from toolgauge.score.origins.code_lines import is_code
from toolgauge.score.origins.delegated_texts import ran_within

# Names of tools that run code: one of these words, or one that runs something beside one that is run.
_RUNS_CODE = frozenset(
    ("python", "ipython", "interpreter", "bash", "shell", "terminal", "powershell", "repl", "notebook", "jupyter")
)
_RUNS = frozenset(("run", "exec", "execute", "eval", "evaluate", "execution", "runner", "executor"))
_IS_RUN = frozenset(("code", "script", "sql", "javascript", "js", "typescript", "program", "snippet", "cell"))
_AGENT = frozenset(("agent", "agents", "subagent", "subagents"))
# Arguments that choose a sub-agent, and those that choose an agent where the call has a task for it as well.
_CHOOSES = re.compile(r"sub_?agent|co_?worker|agent_?type", re.IGNORECASE)
_NAMES_AGENT = frozenset(("agent", "agent_name", "agentName"))
_TASKS = frozenset(("prompt", "task", "instruction", "instructions"))


class FreeTexts:
    """Decides for the calls of one trajectory which of their texts are not judged."""

    def __init__(self, trajectory: Trajectory) -> None:
        self._trajectory = trajectory
        self._agents = frozenset(map(name_words, trajectory.agents))

    def holds(self, call: ToolCall, text: str | float) -> bool:
        """Return whether a value of the call is a text that is code, or a prompt to another agent.

        Rule: a text is code where its tool runs code, or where half of its lines read like code; it is a prompt where it has
        several words and its tool is an agent: a hand-off, one with `agent` or an agent's name as its name, one with an argument that
        chooses an agent, or one within which an agent ran.
        """
        if not isinstance(text, str):
            return False
        if runs_code(call.name) or is_code(text):
            return True
        return len(text.split(None, 1)) > 1 and self._is_agent(call)

    def _is_agent(self, call: ToolCall) -> bool:
        words = name_words(call.name)
        if hands_over(call.name) or not _AGENT.isdisjoint(words) or words in self._agents:
            return True
        return _chooses_agent(call) or any(ran_within(run, call) for run in self._trajectory.runs)


def _chooses_agent(call: ToolCall) -> bool:
    if not (isinstance(call.arguments, Recorded) and isinstance(call.arguments.value, dict)):
        return False
    names = call.arguments.value.keys()
    if any(_CHOOSES.match(name) for name in names):
        return True
    return not names.isdisjoint(_NAMES_AGENT) and not names.isdisjoint(_TASKS)


# Agents call the same few tools all day long.
@lru_cache(maxsize=1024)
def runs_code(name: str) -> bool:
    """Return whether the name of a tool shows that it runs code."""
    words = frozenset(name_words(name))
    return not words.isdisjoint(_RUNS_CODE) or not (words.isdisjoint(_RUNS) or words.isdisjoint(_IS_RUN))

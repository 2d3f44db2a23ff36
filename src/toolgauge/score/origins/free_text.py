"""Texts in which an agent may write values of its own: code, and what it asks of another agent.

Arrives: a call and one of its text values. Leaves: whether the text is code or a prompt. Both are written by the agent: numbers and names
in them are its own, and an id that stands in an argument by itself is still looked for.
"""

import re
from functools import lru_cache

from toolgauge.model.trajectory import Run, ToolCall, Trajectory
from toolgauge.score.criterion import hands_over, name_words

# Names of tools that run code: one of these words, or one that runs something beside one that is run.
_RUNS_CODE = frozenset(
    ("python", "ipython", "interpreter", "bash", "shell", "terminal", "powershell", "repl", "notebook", "jupyter")
)
_RUNS = frozenset(("run", "exec", "execute", "eval", "evaluate", "execution", "runner", "executor"))
_IS_RUN = frozenset(("code", "script", "sql", "javascript", "js", "typescript", "program", "snippet", "cell"))
_AGENT = frozenset(("agent", "agents", "subagent", "subagents"))

# So much of a text shows whether it is code.
_LONGEST_READ = 4000
_LONGEST_LINE = 200
_ENDS_CODE = (";", "{", "}")
# A line that is code by itself: a call, an assignment, SQL, a diff, a fence.
_CODE_LINE = re.compile(
    r"[A-Za-z_][\w.]{0,80}\(.*\)[;,]?$"
    r"|[A-Za-z_][\w.\[\]'\"]{0,80}(?:, ?[A-Za-z_]\w{0,80})? ?[-+*/|&]?= ?[\w.]{0,80}[(\[{'\"]"
    r"|(?:SELECT|INSERT INTO|UPDATE \S+ SET|DELETE FROM|CREATE TABLE|ALTER TABLE|WITH \S+ AS)\b"
    r"|(?:from \S+ )?import [\w.*{]+(?: as \w+)?$"
    r"|@@ |diff --git |[+-]{3} [ab]/|```|#!/|#include"
)
# The beginnings of lines that are code among other lines of code, and prose by themselves.
_CODE_BEGINS = re.compile(
    r"(?:(?:async )?def|class|return|for \S+ in|while|if|elif|else|try|except|finally|with|raise|const|let|var|function|func|fn"
    r"|public|private|package|using|from|import|await|yield)\b|//|/\*|# |[)\]}]|[A-Za-z_][\w.\[\]'\"]{0,80} ?[-+*/|&]?= "
)


class FreeTexts:
    """Decides for the calls of one trajectory which of their texts are not judged."""

    def __init__(self, trajectory: Trajectory) -> None:
        self._trajectory = trajectory
        self._agents = frozenset(map(name_words, trajectory.agents))

    def holds(self, call: ToolCall, text: str | float) -> bool:
        """Return whether a value of the call is a text that is code, or a prompt to another agent.

        Rule: a text is code where its tool runs code, or where half of its lines read like code; it is a prompt where it has
        several words and its tool is an agent: a hand-off, one with `agent` or an agent's name as its name, or one within which an agent ran.
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
        return any(_ran_within(run, call) for run in self._trajectory.runs)


def _ran_within(run: Run, call: ToolCall) -> bool:
    is_below = run.is_agent and run.span != call.run and run.above == call.run
    return is_below and call.start_ns <= run.start_ns and run.end_ns <= call.end_ns


# Agents call the same few tools all day long.
@lru_cache(maxsize=1024)
def runs_code(name: str) -> bool:
    """Return whether the name of a tool shows that it runs code."""
    words = frozenset(name_words(name))
    return not words.isdisjoint(_RUNS_CODE) or not (words.isdisjoint(_RUNS) or words.isdisjoint(_IS_RUN))


def is_code(text: str) -> bool:
    """Return whether half of the lines of a text read like code; JSON is none."""
    if text.lstrip()[:1] in ("{", "["):
        return False
    lines = [line.strip()[:_LONGEST_LINE] for line in text[:_LONGEST_READ].splitlines()]
    lines = [line for line in lines if line]
    sure = [line for line in lines if line.endswith(_ENDS_CODE) or _CODE_LINE.match(line)]
    likely = len([line for line in lines if _CODE_BEGINS.match(line)]) if len(lines) > 1 else 0
    return bool(sure) and 2 * max(len(sure), likely) >= len(lines)

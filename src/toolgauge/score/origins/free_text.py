"""Texts that an agent wrote by itself: code, and prompts to other agents.

Numbers and names in them are the agent's own; an id that stands in an argument by itself is still looked for.
"""

import re
from functools import lru_cache

from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.name_words import hands_over, name_words
from toolgauge.score.origins.delegated_texts import ran_within
from toolgauge.score.selection import readable_arguments

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
# One line of plain words that does not begin like code. Without it: a tenth more for the evaluator.
_PLAIN_WORDS = re.compile(
    r"(?!(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|WITH|diff|from|import|return|yield)\b)[\w.][\w.@ -]*"
)
# The beginnings of lines that are code among other lines of code, and prose by themselves.
_CODE_BEGINS = re.compile(
    r"(?:(?:async )?def|class|return|for \S+ in|while|if|elif|else|try|except|finally|with|raise|const|let|var|function|func|fn"
    r"|public|private|package|using|from|import|await|yield)\b|//|/\*|# |[)\]}]|[A-Za-z_][\w.\[\]'\"]{0,80} ?[-+*/|&]?= "
)
_TEXT = re.compile(r"(?:\b[bfr])?(?:\"[^\"]*\"|'[^']*'|`[^`]*`)")
_COMMENT = re.compile(r" (?:#|//) .*")
# Innermost brackets: right behind a name they are its arguments or its index, elsewhere a value.
_BRACKETS = re.compile(r"((?<=[\w)\]}])[(\[][^()\[\]{}]*[)\]])|[(\[{][^()\[\]{}]*[)\]}]")
# A name has no three digits in a row: `A77123` is more likely an id than a variable.
_NAME = r"[A-Za-z_$](?!\w*\d{3})[\w.$]*"
_OPERAND = rf"(?:(?:await|new|not|from) )?[-+!~*&]{{0,2}}(?:\d[\d_.]*[A-Za-z]{{0,2}}(?!\w)|{_NAME})"
_OPERATOR = r"(?: ?(?:[+*%<>&|^]|\*\*|<<|>>|[=!]==?|[<>]=|&&|\|\||\?\?|=>) ?| [-/?:] | // )"
_VALUE = rf"{_OPERAND}(?:{_OPERATOR}{_OPERAND})*"
_WORDS = rf"{_OPERAND}(?:(?:{_OPERATOR}| (?:and|as|else|if|in|is|is not|not in|or|from) ){_OPERAND})*"
_DECLARES = (
    "auto|bool|const|double|export|final|float|int|let|long|mut|private|protected|public|readonly|static|string|val|var"
)
_STATEMENT = re.compile(
    # `TIMEOUT_MS = 48213`, `const limit: number = 48213`, `self.total += 48213`, `LIMIT=48213`
    rf"(?:(?:{_DECLARES}) ){{0,4}}(?:{_NAME}(?:, {_NAME}){{0,3}}(?:: ?{_NAME})? (?:[-+*/%|&^:]|//|\*\*|<<|>>|\|\||\?\?)?= |[A-Z_]{{1,80}}=){_WORDS}(?:, {_WORDS})*[,;]?$"
    # `return compute(item_id=48213)`, `return 48213`
    rf"|(?:return|yield|yield from) {_VALUE};?$"
    # `timeout: 48213,`
    rf"|[a-z_$](?!\w*\d{{3}})[\w$]*: {_VALUE},$"
    # `#define LIMIT 48213`
    rf"|#define \w+ {_VALUE}$"
)
# Code only with a call, a text or a comparison in it: `assert f(4821) == 77123`, `if total > 48213:`, and not `raise 48213`.
_WITH_SIGN = re.compile(
    rf"(?:assert|await|del|raise|return|throw|yield) {_WORDS};?$"
    rf"|(?:(?:async )?(?:case|class|def|elif|except|for|if|while|with)|\}}? ?else if) {_WORDS}(?: ?-> ?{_WORDS})?:(?: (?:return |raise |yield )?{_WORDS})?$"
    rf"|(?:if|while|for) ?{_WORDS}$"
    rf"|@{_NAME}$"
)
_SIGN = re.compile(r"[\w)\]}][(\[]|[\"'`]|[=!<>]=| [<>] |=>")
_TAG = re.compile(r"<[^<>]*>")
_BEGINS_TAG = re.compile(r"</?[A-Za-z][\w:.-]*[\s/>]")


def is_code(text: str) -> bool:
    """Return whether half of the lines of a text read like code; JSON is none."""
    if _PLAIN_WORDS.fullmatch(text) is not None or text.lstrip()[:1] in ("{", "["):
        return False
    lines = [line.strip()[:_LONGEST_LINE] for line in text[:_LONGEST_READ].splitlines()]
    lines = [line for line in lines if line]
    sure = [line for line in lines if line.endswith(_ENDS_CODE) or _CODE_LINE.match(line) or _is_statement(line)]
    likely = len([line for line in lines if _CODE_BEGINS.match(line)]) if len(lines) > 1 else 0
    return bool(sure) and 2 * max(len(sure), likely) >= len(lines)


def _is_statement(line: str) -> bool:
    """Return whether a line is one statement, one member of an object, or markup without digits outside its tags."""
    # Rule: it begins like one, and from there on no two words stand side by side, as they do in prose.
    if line[0] == "<":
        return _BEGINS_TAG.match(line) is not None and not any(map(str.isdigit, _TAG.sub("", line)))
    flat = _COMMENT.sub("", _TEXT.sub("S", line)).rstrip()
    before = ""
    while before != flat:
        before, flat = flat, _BRACKETS.sub(lambda found: "" if found[1] else "S", flat)
    return _STATEMENT.match(flat) is not None or (_SIGN.search(line) is not None and _WITH_SIGN.match(flat) is not None)


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


def is_free_text(call: ToolCall, text: str | float, trajectory: Trajectory) -> bool:
    """Return whether a value of a call is a text that is code, or a prompt to another agent."""
    # Rule: code is a text for a tool that runs code, or one with half of its lines like code; a prompt is a text of several words
    # for a hand-off, a tool named `agent` or as an agent, with an argument that chooses an agent, or within which an agent ran.
    if not isinstance(text, str):
        return False
    if runs_code(call.name) or is_code(text):
        return True
    if len(text.split(None, 1)) <= 1:
        return False
    if _calls_agent(call.name) or name_words(call.name) in map(name_words, trajectory.agents):
        return True
    names = (readable_arguments(call) or {}).keys()
    if any(_CHOOSES.match(name) for name in names):
        return True
    chooses_agent = not _NAMES_AGENT.isdisjoint(names) and not _TASKS.isdisjoint(names)
    return chooses_agent or any(ran_within(run, call) for run in trajectory.runs)


# Agents call the same few tools all day long.
@lru_cache(maxsize=1024)
def _calls_agent(name: str) -> bool:
    return hands_over(name) or not _AGENT.isdisjoint(name_words(name))


@lru_cache(maxsize=1024)
def runs_code(name: str) -> bool:
    """Return whether the name of a tool shows that it runs code."""
    words = frozenset(name_words(name))
    return not words.isdisjoint(_RUNS_CODE) or not (words.isdisjoint(_RUNS) or words.isdisjoint(_IS_RUN))

"""`grounded_arguments`: can every argument value be derived from what the agent had seen before the call? Needs no reference.

An id that nobody had named before is invented or somebody else's: the call may be valid and do its work on the wrong thing.
"""

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import cached_property, lru_cache
from itertools import chain
from typing import ClassVar, Literal, TypeAlias

from toolgauge.model.content import Recorded
from toolgauge.model.judging import Judged
from toolgauge.model.masks import is_digest, is_mask
from toolgauge.model.outcomes import Difference, Level, NotEvaluated, Outcome, Scored, Side
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.contracts import hands_over, name_words
from toolgauge.score.facts import EarlierTracesEvaluator, Facts
from toolgauge.score.origins.gaps import ran_within
from toolgauge.score.origins.grounding import Seen, Source
from toolgauge.score.origins.value_origin import MAX_VALUES, Value, is_client_key, is_id, origin, place, values_of
from toolgauge.score.patterns import Globs
from toolgauge.score.selection import (
    first_names,
    has_taken_effect,
    nothing_to_judge,
    readable_arguments,
    shown,
    unseen_arguments,
)
from toolgauge.score.tool_schemas import schema_at, takes_no_id

# The values that are judged in calls that do not change state.
Reading: TypeAlias = Literal["ids", "all", "none"]
_Steps: TypeAlias = tuple[str | int, ...]

_MAX_KNOWN = 1000
_MAX_DIFFERENCES = 20
_MAX_SHOWN = 3

# Text that an agent writes itself: searches, code and thoughts.
_EXEMPT = (
    *(
        "query",
        "*_query",
        "q",
        "search*",
        "keyword*",
        "pattern",
        "regex",
        "prompt",
        "question",
        "thought*",
        "reasoning",
    ),
    *("expression", "formula", "script", "sql", "command", "cmd", "source_code"),
    # Chosen by the agent: names of what it creates, and keys that have to be new.
    *("idempotency*", "nonce", "correlation_id", "*color", "*path", "*filename", "*file_name", "patch", "diff"),
    # Where to click, read off a picture.
    *("x", "y", "x?", "y?", "*_x", "*_y", "*coordinate", "*coordinates"),
    *("*file*.content", "limit", "offset", "page", "page_size", "top_k", "max_results", "timeout*"),
)


class GroundedArguments(EarlierTracesEvaluator):
    """The share of argument values that had been seen before the call, of those that can be looked for."""

    version: ClassVar[str] = "3"
    level: ClassVar[Level] = "call"

    # The values that are judged in calls that do not change state: ids, all values or none.
    reading: Reading = "ids"
    # Arguments that are not judged: globs over their names, and over `tool.path` without the places in lists.
    exempt: tuple[str, ...] = _EXEMPT
    # Texts that every agent knows beside its conversation.
    known: tuple[str, ...] = ()

    @cached_property
    def _exempt_globs(self) -> Globs:
        return Globs(self.exempt)

    def outcomes(self, facts: Facts) -> Iterator[Judged]:
        """Yield one outcome for each call that has values to look for."""
        trajectory = self.as_seen(facts.trajectory)
        # Made once a call has values to look for: many runs have none.
        seen = Seen(trajectory, self.known) if self.known else None
        # Names of the arguments under which something was looked up.
        looked_up: set[str] = set()
        is_any = False
        calls = self.calls(trajectory)
        for call in calls:
            given = values_of(call.arguments.value) if isinstance(call.arguments, Recorded) else None
            values = self._judged_values(call, given, trajectory, looked_up)
            outcome: Outcome | None = None
            if isinstance(values, NotEvaluated):
                outcome = values
            elif values:
                seen = seen or Seen(trajectory)
                seen.before(call)
                is_whole = given is not None and len(given) == len(values)
                outcome = _judged(call, values, seen, trajectory, is_whole=is_whole)
                if has_taken_effect(call) and call.name not in trajectory.writing_tools:
                    looked_up.update([value.name for value, named in values if named])
            if outcome is not None:
                is_any = True
                yield call, outcome
        if trajectory is facts.trajectory and seen is not None:
            facts.seen = seen
        if not is_any:
            if not calls or trajectory.hidden_turns:
                yield None, nothing_to_judge(trajectory)
            else:
                yield None, _NOTHING_TO_LOOK_UP if any(map(has_taken_effect, calls)) else _NONE_WORKED

    def _judged_values(
        self, call: ToolCall, given: Sequence[Value] | None, trajectory: Trajectory, looked_up: Set[str]
    ) -> list[tuple[Value, bool]] | NotEvaluated:
        """Return the values of a call that are judged, each with whether it is an id, or the reason why they cannot be read."""
        only_ids = call.name not in trajectory.writing_tools and self.reading != "all"
        if only_ids and self.reading == "none":
            return []
        if given is None:
            unparsable = f"the arguments of {shown(call.name)} cannot be read"
            return unseen_arguments(call) or NotEvaluated(reason="unparsable", explanation=unparsable)
        values: list[tuple[Value, bool]] = []
        has_effect, exempt = has_taken_effect(call), self._exempt_globs
        for value in given:
            named = is_id(value)
            # A call without effect changed nothing; it is wrong if it was meant for another thing than the one looked up before.
            is_judged = has_effect or value.name in looked_up if named else has_effect and not only_ids
            if not is_judged or _is_exempt(exempt, call.name, value.steps, value.name) or is_client_key(value):
                continue
            if named or not _is_free_text(call, value.content, trajectory):
                values.append((value, named))
        return values


# Agents call the same few tools all day long.
@lru_cache(maxsize=_MAX_KNOWN)
def _is_exempt(exempt: Globs, tool: str, steps: _Steps, name: str) -> bool:
    path = ".".join([tool, *(step for step in steps if isinstance(step, str))])
    return exempt.match(name) or exempt.match(path)


_NOTHING_TO_LOOK_UP = NotEvaluated(reason="no_calls", explanation="no call was given a value that can be looked up")
_NONE_WORKED = NotEvaluated(
    reason="no_calls", explanation="no call worked, and none used an id that an earlier call had looked up"
)


def _judged(
    call: ToolCall, values: Sequence[tuple[Value, bool]], seen: Seen, trajectory: Trajectory, *, is_whole: bool
) -> Outcome | None:
    """Judge the chosen values; `is_whole` where these are all values of the call."""
    found: dict[Source, int] = {}
    grounded: list[_Steps] = []
    missing: list[Value] = []
    masked: list[Value] = []
    for value, named in values:
        source, text = origin(value, call.name, seen, named=named), value.content
        if source is not None:
            if source != "free":
                found[source] = found.get(source, 0) + 1
                grounded.append(value.steps)
            continue
        # A mask, or a digest where the tool's schema takes nothing like an id, does not show the origin of the value behind it.
        is_masked = isinstance(text, str) and is_mask(text)
        if isinstance(text, str) and is_digest(text):
            # Every offer that has a schema is as good as another.
            runs = (run.tools_offered or () for run in trajectory.runs)
            tools = chain(trajectory.tools_offered or (), *runs, trajectory.registered_tools.values())
            schemas = (tool.parameters for tool in tools if tool.name == call.name and tool.parameters is not None)
            is_masked = is_masked or takes_no_id(schema_at(next(schemas, None), value.steps))
        if is_masked:
            masked.append(value)
        elif seen.gap is not None:
            # The other values change nothing then.
            return seen.gap
        else:
            missing.append(value)
    name = shown(call.name)
    if not grounded and not missing:
        redacted = f"values of {name} were redacted: {', '.join([shown(value.path) for value in masked[:_MAX_SHOWN]])}"
        return NotEvaluated(reason="redacted", explanation=redacted) if masked else None
    cut = f"; the first {MAX_VALUES} values were looked at" if len(values) == MAX_VALUES else ""
    if not missing:
        # The text names the judged values where others were not judged.
        places = None if is_whole and len(grounded) == len(values) else tuple(grounded)
        only = places is not None and not has_taken_effect(call)
        note = ("; of a call that failed or never ran, only ids are judged" if only else "") + cut
        scored = _grounded if len(grounded) <= _MAX_SHOWN else _grounded.__wrapped__
        return scored(name, places, note, tuple(found.items()))
    unseen = first_names([shown(value.path) for value in missing], _MAX_SHOWN)
    return Scored(
        value=len(grounded) / (len(grounded) + len(missing)),
        explanation=f"{name} was called with values that had not been seen before: {unseen}{cut}",
        parts=_parts(found.items(), len(missing)),
        differences=tuple(
            Difference(where=f"{call.name}: {value.path}", rule="grounded", actual=Side(value=value.content))
            for value in missing[:_MAX_DIFFERENCES]
        ),
    )


# Agents call the same few tools all day long.
@lru_cache(maxsize=_MAX_KNOWN)
def _grounded(name: str, places: tuple[_Steps, ...] | None, note: str, found: tuple[tuple[Source, int], ...]) -> Scored:
    """Return the score of a call whose values had all been seen; `places` of the judged values where others are not judged."""
    if places is None:
        explanation = f"what {name} was called with had been seen before{note}"
    else:
        names = first_names([shown(place(steps)) for steps in places], _MAX_SHOWN)
        explanation = f"the values of {name} that are judged had been seen before: {names}{note}"
    return Scored(1.0, explanation, _parts(found, 0))


def _parts(found: Iterable[tuple[Source, int]], missing: int) -> dict[str, float]:
    by_source = {f"from_{source}": count for source, count in found}
    return {"values": sum(by_source.values()) + missing, "not_found": missing, **by_source}


# Texts that an agent wrote by itself: code, and prompts to other agents. Numbers and names in them are its own; an id that is
# a whole argument is still looked for.
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
_IDENTIFIER = r"[A-Za-z_$](?!\w*\d{3})[\w.$]*"
_OPERAND = rf"(?:(?:await|new|not|from) )?[-+!~*&]{{0,2}}(?:\d[\d_.]*[A-Za-z]{{0,2}}(?!\w)|{_IDENTIFIER})"
_OPERATOR = r"(?: ?(?:[+*%<>&|^]|\*\*|<<|>>|[=!]==?|[<>]=|&&|\|\||\?\?|=>) ?| [-/?:] | // )"
_VALUE = rf"{_OPERAND}(?:{_OPERATOR}{_OPERAND})*"
_WORDS = rf"{_OPERAND}(?:(?:{_OPERATOR}| (?:and|as|else|if|in|is|is not|not in|or|from) ){_OPERAND})*"
_DECLARES = (
    "auto|bool|const|double|export|final|float|int|let|long|mut|private|protected|public|readonly|static|string|val|var"
)
_STATEMENT = re.compile(
    # `TIMEOUT_MS = 48213`, `const limit: number = 48213`, `self.total += 48213`, `LIMIT=48213`
    rf"(?:(?:{_DECLARES}) ){{0,4}}(?:{_IDENTIFIER}(?:, {_IDENTIFIER}){{0,3}}(?:: ?{_IDENTIFIER})? (?:[-+*/%|&^:]|//|\*\*|<<|>>|\|\||\?\?)?= |[A-Z_]{{1,80}}=){_WORDS}(?:, {_WORDS})*[,;]?$"
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
    rf"|@{_IDENTIFIER}$"
)
_SIGN = re.compile(r"[\w)\]}][(\[]|[\"'`]|[=!<>]=| [<>] |=>")
_TAG = re.compile(r"<[^<>]*>")
_BEGINS_TAG = re.compile(r"</?[A-Za-z][\w:.-]*[\s/>]")


def _is_code(text: str) -> bool:
    """Return whether half of the lines of a text read like code; JSON does not count."""
    if _PLAIN_WORDS.fullmatch(text) is not None or text.lstrip()[:1] in ("{", "["):
        return False
    lines = [line.strip()[:_LONGEST_LINE] for line in text[:_LONGEST_READ].splitlines()]
    lines = [line for line in lines if line]
    sure = [line for line in lines if line.endswith(_ENDS_CODE) or _CODE_LINE.match(line) or _is_statement(line)]
    likely = len([line for line in lines if _CODE_BEGINS.match(line)]) if len(lines) > 1 else 0
    return bool(sure) and 2 * max(len(sure), likely) >= len(lines)


def _is_statement(line: str) -> bool:
    """Return whether a line is one statement, one member of an object, or markup without digits outside its tags."""
    # Rule: it begins like one, and after that no two words are neighbours, as they are in prose.
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
# Arguments that choose a sub-agent, and arguments that choose an agent where the call has a task for it as well.
_CHOOSES = re.compile(r"sub_?agent|co_?worker|agent_?type", re.IGNORECASE)
_NAMES_AGENT = frozenset(("agent", "agent_name", "agentName"))
_TASKS = frozenset(("prompt", "task", "instruction", "instructions"))


def _is_free_text(call: ToolCall, text: str | float, trajectory: Trajectory) -> bool:
    """Return whether a value of a call is a text that is code, or a prompt to another agent."""
    # Rule: code is a text for a tool that runs code, or one with half of its lines like code; a prompt is a text of several words
    # for a hand-off, a tool named `agent` or as an agent, with an argument that chooses an agent, or within which an agent ran.
    if not isinstance(text, str):
        return False
    runs_code, calls_agent = _runs_code_or_agent(call.name)
    if runs_code or _is_code(text):
        return True
    if len(text.split(None, 1)) <= 1:
        return False
    if calls_agent or name_words(call.name) in map(name_words, trajectory.agents):
        return True
    names = (readable_arguments(call) or {}).keys()
    if any(_CHOOSES.match(name) for name in names):
        return True
    chooses_agent = not _NAMES_AGENT.isdisjoint(names) and not _TASKS.isdisjoint(names)
    return chooses_agent or any(ran_within(run, call) for run in trajectory.runs)


@lru_cache(maxsize=_MAX_KNOWN)
def _runs_code_or_agent(name: str) -> tuple[bool, bool]:
    """Return whether the name of a tool shows that it runs code, and that it calls another agent."""
    words = frozenset(name_words(name))
    runs_code = not words.isdisjoint(_RUNS_CODE) or not (words.isdisjoint(_RUNS) or words.isdisjoint(_IS_RUN))
    return runs_code, hands_over(name) or not words.isdisjoint(_AGENT)

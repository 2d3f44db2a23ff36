"""The prompts of judge models: the visible part of a conversation, and the texts around it (`judge_prompts.toml`).

Rubrics belong to the instructions; text from spans never does. A call sees all earlier exchanges, the prompt of its own, and
of its own only the executions that had ended when it started, as in strands-agents-evals 1.7 (its `TraceExtractor`).
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Final, Literal, TypeAlias, cast

from toolgauge.model.json import JsonObject
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import Message, Run, ToolCall, Trajectory

_TEXTS: Final[JsonObject] = tomllib.loads(files("toolgauge.score").joinpath("judge_prompts.toml").read_text("utf-8"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What to ask for: instructions and the JSON Schema of the verdict. `version` changes with any text."""

    version: str
    instructions: str
    form_name: str
    form: JsonObject


def _prompt(name: str, before: str = "") -> Prompt:
    """Read a prompt; its task follows `before`, or else the remarks on quotations follow it."""
    written = cast("Mapping[str, str]", _TEXTS[name])
    quotations = f"\n\n{_TEXTS['quotation']}\n\n{_TEXTS['reason_first']}"
    return Prompt(
        version=written["version"],
        instructions=f"{before}\n{written['task']}" if before else written["task"] + quotations,
        form_name=written["form_name"],
        form=cast("JsonObject", written["form"]),
    )


TOOL_PARAMETER_ACCURACY: Final = _prompt("tool_parameter_accuracy")
TOOL_SELECTION_ACCURACY: Final = _prompt("tool_selection_accuracy")
FAITHFULNESS: Final = _prompt("faithfulness")
FAITHFULNESS_LABELS: Final = {
    "Not At All": 0.0,
    "Not Generally": 0.25,
    "Neutral/Mixed": 0.5,
    "Generally Yes": 0.75,
    "Completely Yes": 1.0,
}
TRAJECTORY_JUDGE: Final = _prompt("trajectory_judge")
OUTPUT_JUDGE: Final = _prompt("output_judge")
STRANDS_TRAJECTORY_JUDGE: Final = _prompt("strands_trajectory_judge", TRAJECTORY_JUDGE.instructions)
DEEPEVAL_ARGUMENT_CORRECTNESS: Final = _prompt("deepeval_argument_correctness")

# Titles of quotations, and the texts in place of a missing part.
TOOLS: Final = "TOOLS ON OFFER"
HISTORY: Final = "CONVERSATION SO FAR"
TARGET_CALL: Final = "CALL TO JUDGE"
TARGET_RESPONSE: Final = "RESPONSE TO JUDGE"
INPUT: Final = "INPUT"
OUTPUT: Final = "OUTPUT"
EXPECTED_OUTPUT: Final = "EXPECTED OUTPUT"
TRAJECTORY: Final = "CALLS MADE"
EXPECTED_TRAJECTORY: Final = "EXPECTED CALLS"
NO_TOOLS: Final = "Which tools were on offer was not recorded."
NO_HISTORY: Final = "Nothing was said or done before."
NOT_RECORDED: Final = "(not recorded)"


def with_rubric(prompt: Prompt, rubric: str, description: str | None = None) -> str:
    """Return the instructions with what a configuration adds to them."""
    described = f"\n\nWhat the tools do, and what is normal here:\n{description}" if description else ""
    return f"{prompt.instructions}{described}\n\nThe rubric:\n{rubric}"


@dataclass(frozen=True, slots=True)
class Spoken:
    """Text of the conversation."""

    role: Literal["user", "assistant"]
    text: str


# An entry of a history: what somebody said, or executions that belong together.
Entry: TypeAlias = Spoken | tuple[ToolCall, ...]
# Whether the first call's result could be known when the second was made.
IsKnown: TypeAlias = Callable[[ToolCall, ToolCall], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeView:
    """What the judge sees besides its target; from `current` on, `history` is of the target's own exchange."""

    history: tuple[Entry, ...]
    current: int
    tools: tuple[ToolDefinition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One turn of the conversation; `root` is the run that talks to the user, `tools` are its own or an earlier root's."""

    prompt: str
    response: str
    calls: tuple[ToolCall, ...]
    root: Run | None
    runs: tuple[Run, ...]
    tools: tuple[ToolDefinition, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries that later exchanges see of this one, without empty ones."""
        asked: tuple[Entry, ...] = (Spoken("user", self.prompt),) if self.prompt else ()
        done: tuple[Entry, ...] = (self.calls,) if self.calls else ()
        answered: tuple[Entry, ...] = (Spoken("assistant", self.response),) if self.response else ()
        return (*asked, *done, *answered)

    def tools_of(self, call: ToolCall) -> tuple[ToolDefinition, ...]:
        """Return what the call's agent could choose from."""
        if len(self.runs) < 2:
            return self.tools
        owner = next((run for run in self.runs if run.span == call.run), self.root)
        return (owner.tools_offered or ()) if owner is not None else ()


def exchanges_by_trace(trajectory: Trajectory) -> tuple[Exchange, ...]:
    """Take each trace for one exchange, as the original does."""
    if not trajectory.runs:
        return exchanges_by_message(trajectory)
    traces = list(dict.fromkeys(run.span.trace_id for run in trajectory.runs))
    with_runs, place = frozenset(traces), 0
    # Traces without runs come between the others as their calls do.
    for trace in dict.fromkeys(call.span.trace_id for call in trajectory.calls):
        if trace not in with_runs:
            traces.insert(place, trace)
            place += 1
        elif trace in traces[place:]:
            place = traces.index(trace, place) + 1
    parts = {trace: (list[Run](), list[ToolCall]()) for trace in traces}
    for run in trajectory.runs:
        parts[run.span.trace_id][0].append(run)
    for call in trajectory.calls:
        parts[call.span.trace_id][1].append(call)
    return _carried(parts.values())


def exchanges_by_run(trajectory: Trajectory) -> tuple[Exchange, ...]:
    """Take each outermost run for one exchange: one trace may hold a whole dialogue."""
    outermost = _outermost(trajectory.runs)
    talking = set(outermost.values())
    if len(talking) <= len({run.span.trace_id for run in trajectory.runs}):
        return exchanges_by_trace(trajectory)
    parts = {top: (list[Run](), list[ToolCall]()) for top in outermost.values()}
    first = {top.trace_id: top for top in reversed(parts)}
    for call in trajectory.calls:
        top = outermost.get(call.run) if call.run is not None else None
        parts[top or first.get(call.span.trace_id) or next(iter(parts))][1].append(call)
    for run in trajectory.runs:
        parts[outermost[run.span]][0].append(run)
    return _carried(parts.values())


def exchanges_by_message(trajectory: Trajectory) -> tuple[Exchange, ...]:
    """Begin an exchange at each message of the user; for records without runs."""
    messages = trajectory.messages
    # What precedes the first message belongs to it: nobody else has spoken.
    places = [place for place, message in enumerate(messages) if message.role == "user"] or [0]
    turns = [-1, *(messages[place].turn for place in places[1:])]
    exchanges: list[Exchange] = []
    for number, place in enumerate(places):
        is_last = number + 1 == len(places)
        end = len(messages) if is_last else places[number + 1]
        calls = (call for call in trajectory.calls if call.turn >= turns[number])
        exchanges.append(
            Exchange(
                prompt=_newest(messages[place : place + 1], "user"),
                response=_newest(messages[0 if number == 0 else place : end], "assistant"),
                calls=tuple(call for call in calls if is_last or call.turn < turns[number + 1]),
                root=None,
                runs=(),
                tools=trajectory.tools_offered or (),
            )
        )
    return tuple(exchanges)


def had_ended(other: ToolCall, target: ToolCall) -> bool:
    """Return whether a call had ended when another started; at the same instant the order of the calls decides."""
    # Clocks are odd: no call ends before it starts.
    return other is not target and (max(other.end_ns, other.start_ns), other.order) < (target.start_ns, target.order)


def was_known(other: ToolCall, target: ToolCall) -> bool:
    """Return the same, but not for calls of one model output: whichever ran first, their arguments were chosen together."""
    is_sibling = other.turn == target.turn and other.requested_by is not None
    return not is_sibling and had_ended(other, target)


def view_of_call(exchanges: Sequence[Exchange], number: int, call: ToolCall, is_known: IsKnown) -> JudgeView:
    """Return the history before a call of the exchange of this number."""
    exchange = exchanges[number]
    before = tuple(other for other in exchange.calls if is_known(other, call))
    return view_of(exchanges[:number], replace(exchange, calls=before, tools=exchange.tools_of(call)))


def view_of(earlier: Sequence[Exchange], last: Exchange) -> JudgeView:
    """Return the history before the response of the last exchange."""
    history = tuple(entry for exchange in earlier for entry in exchange.entries)
    return JudgeView(history=history + replace(last, response="").entries, current=len(history), tools=last.tools)


def view_of_last_run(trajectory: Trajectory) -> tuple[JudgeView, str] | None:
    """Return what the original sees of the last response, and the response: each run counts, also one within another."""
    history: list[Entry] = []
    current, response = 0, None
    for exchange in exchanges_by_trace(trajectory):
        for run in exchange.runs:
            if response is not None:
                history.append(Spoken("assistant", response))
            current, response = len(history), run.response or ""
            history.append(Spoken("user", run.prompt or ""))
            owned = exchange.calls
            if len(exchange.runs) > 1:
                spans = {other.span for other in exchange.runs}
                root = exchange.root.span if exchange.root is not None else None
                owned = tuple(one for one in owned if (one.run if one.run in spans else root) == run.span)
            if owned:
                history.append(owned)
    if response is None:
        return None
    return JudgeView(history=tuple(history), current=current, tools=()), response


def final_answer(trajectory: Trajectory) -> str:
    """Return the last text of the assistant; "" when none was recorded."""
    spoken = [exchange.response for exchange in exchanges_by_run(trajectory) if exchange.response]
    return spoken[-1] if spoken else ""


def user_input(trajectory: Trajectory) -> str:
    """Return all texts of the user, one a paragraph."""
    return "\n\n".join(exchange.prompt for exchange in exchanges_by_run(trajectory) if exchange.prompt)


def _carried(parts: Iterable[tuple[list[Run], list[ToolCall]]]) -> tuple[Exchange, ...]:
    exchanges: list[Exchange] = []
    tools: tuple[ToolDefinition, ...] = ()
    for runs, calls in parts:
        # Return the earliest outermost run with a text, else the earliest outermost one, else the earliest.
        outermost = [run for run in runs if run.above is None]
        with_text = [run for run in outermost if run.prompt or run.response]
        root = min(with_text or outermost or runs, key=lambda run: run.start_ns, default=None)
        tools = (root.tools_offered if root is not None else None) or tools
        exchanges.append(
            Exchange(
                prompt=(root.prompt if root is not None else None) or "",
                response=(root.response if root is not None else None) or "",
                calls=tuple(calls),
                root=root,
                runs=tuple(runs),
                tools=tools,
            )
        )
    return tuple(exchanges)


def _outermost(runs: Sequence[Run]) -> dict[SpanRef, SpanRef]:
    """Return the outermost run of each; a circle of runs ends where it began."""
    above = {run.span: run.above for run in runs}
    found: dict[SpanRef, SpanRef] = {}
    for run in runs:
        path = dict.fromkeys((run.span,))
        at = run.span
        while at not in found and (higher := above[at]) is not None and higher in above and higher not in path:
            at = higher
            path[at] = None
        top = found.get(at, at)
        found.update(dict.fromkeys(path, top))
    return found


def _newest(messages: Sequence[Message], role: str) -> str:
    return next((message.text for message in reversed(messages) if message.role == role), "")

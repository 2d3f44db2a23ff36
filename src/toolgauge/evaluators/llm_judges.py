"""Evaluators that ask a language model: `faithfulness`, two by a rubric, `tool_selection_accuracy`, `tool_parameter_accuracy`.

The last one asks only where a value of a call does not occur verbatim in the messages and results before it.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import ClassVar

from pydantic import Field

from toolgauge.model.content import Recorded
from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.judging import Asking, Question
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.outcomes import Level, NotEvaluated, Outcome, Scored
from toolgauge.model.ports import Needs
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score import prompts
from toolgauge.score.judged import JudgedByModel, JudgedCalls, Writer, labelled, question, unreadable_arguments
from toolgauge.score.prompts import (
    JudgeView,
    Prompt,
    Spoken,
    exchanges_by_run,
    final_answer,
    user_input,
    view_of,
)
from toolgauge.score.recorded_values import occurs_alone, result_leaves, written
from toolgauge.score.selection import hidden_calls


class Faithfulness(JudgedByModel):
    """1 for Completely Yes, 0.75 Generally Yes, 0.5 Neutral/Mixed, 0.25 Not Generally, 0 Not At All."""

    version: ClassVar[str] = prompts.FAITHFULNESS.version
    level: ClassVar[Level] = "trajectory"
    needs: ClassVar[Needs] = Needs(reference="none", recent_offer=True)

    def questions(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Asking]:  # noqa: ARG002 (no reference needed)
        """Yield the question about the last response."""
        exchanges = exchanges_by_run(trajectory)
        response = exchanges[-1].response if exchanges else ""
        if not response:
            yield None, NotEvaluated(reason="no_content", explanation="the last response was not recorded")
            return
        view = view_of(exchanges[:-1], exchanges[-1])
        # Only the calls that count under the parameters `tools` and `failed_calls` are shown.
        counted = {call.order for call in self.calls(trajectory)}
        entries = [
            tuple(call for call in entry if call.order in counted) if isinstance(entry, tuple) else entry
            for entry in view.history
        ]
        history = tuple(entry for entry in entries if entry != ())
        if not history:
            yield None, NotEvaluated(reason="no_content", explanation="nothing before the response was recorded")
            return
        current = sum(1 for entry in entries[: view.current] if entry != ())
        writer = Writer(self.max_history_chars)
        before = writer.history(JudgeView(history=history, current=current, tools=view.tools))
        target = writer.text(prompts.TARGET_RESPONSE, "assistant", response)
        yield None, question(prompts.FAITHFULNESS, (before, target), writer)

    def outcome(self, question: Question, verdict: JsonObject) -> Outcome:  # noqa: ARG002 (a verdict says it all)
        """Return the score of the label."""
        return labelled(verdict, prompts.FAITHFULNESS_LABELS.get)


class OutputJudge(JudgedByModel):
    """The score of the judge, from 0 to 1."""

    version: ClassVar[str] = prompts.OUTPUT_JUDGE.version
    level: ClassVar[Level] = "trajectory"
    needs: ClassVar[Needs] = Needs(recent_offer=True)

    # The criteria for the answer, in words.
    rubric: str = Field(min_length=1)
    # Whether the judge is shown the messages of the user.
    include_inputs: bool = True
    # Whether the judge is shown the calls that count and their results.
    include_calls: bool = False

    def questions(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Asking]:
        """Yield the question about the final answer."""
        output = final_answer(trajectory)
        if not output:
            yield None, NotEvaluated(reason="no_content", explanation="the final answer was not recorded")
            return
        writer = Writer(self.max_history_chars)
        asked = user_input(trajectory) if self.include_inputs else ""
        sections = [writer.text(prompts.INPUT, "user", asked)] if asked else []
        if self.include_calls:
            sections.append(writer.calls(prompts.TRAJECTORY, self.calls(trajectory)))
        sections.append(writer.text(prompts.OUTPUT, "assistant", output))
        if expected is not None and expected.answer is not None:
            sections.append(writer.text(prompts.EXPECTED_OUTPUT, "assistant", expected.answer.value))
        instructions = prompts.with_rubric(prompts.OUTPUT_JUDGE, self.rubric)
        yield None, question(prompts.OUTPUT_JUDGE, sections, writer, instructions=instructions)


class TrajectoryJudge(JudgedByModel):
    """The score of the judge, from 0 to 1."""

    version: ClassVar[str] = prompts.TRAJECTORY_JUDGE.version
    level: ClassVar[Level] = "trajectory"
    needs: ClassVar[Needs] = Needs(recent_offer=True)

    # The criteria for the calls, in words.
    rubric: str = Field(min_length=1)
    # A description of the tools and of normal behaviour.
    description: str | None = None
    # Whether the judge is shown the messages of the user.
    include_inputs: bool = True

    def questions(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Asking]:
        """Yield the question about the trajectory; a run without calls can be right, so it is asked about too."""
        if trajectory.hidden_turns:
            yield None, hidden_calls(trajectory)
            return
        writer = Writer(self.max_history_chars)
        asked = user_input(trajectory) if self.include_inputs else ""
        output = final_answer(trajectory)
        sections = [writer.text(prompts.INPUT, "user", asked)] if asked else []
        sections += [writer.text(prompts.OUTPUT, "assistant", output)] if output else []
        if expected is not None and expected.answer is not None:
            sections.append(writer.text(prompts.EXPECTED_OUTPUT, "assistant", expected.answer.value))
        sections.append(writer.calls(prompts.TRAJECTORY, self.calls(trajectory)))
        wanted = self.expected_calls(expected.calls, trajectory) if expected is not None else ()
        if wanted:
            sections.append(writer.expected_calls(wanted))
        instructions = prompts.with_rubric(prompts.TRAJECTORY_JUDGE, self.rubric, self.description)
        yield None, question(prompts.TRAJECTORY_JUDGE, sections, writer, instructions=instructions)


class ToolSelectionAccuracy(JudgedCalls):
    """1 for Yes, 0 for No."""

    prompt: ClassVar[Prompt] = prompts.TOOL_SELECTION_ACCURACY
    version: ClassVar[str] = prompts.TOOL_SELECTION_ACCURACY.version


# Calls with more values than this, and longer conversations, go to the judge.
_MAX_VALUES = 100
_MAX_TEXTS = 20_000
_MAX_CHARACTERS = 2_000_000

_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}
_PRECHECKED = Scored(
    value=1.0, explanation="every value stands verbatim in what the agent had been told", parts={"prechecked": 1}
)


class ToolParameterAccuracy(JudgedCalls):
    """1 for Yes, or where no value needs a judge; 0 for No."""

    prompt: ClassVar[Prompt] = prompts.TOOL_PARAMETER_ACCURACY
    version: ClassVar[str] = prompts.TOOL_PARAMETER_ACCURACY.version

    # Whether calls whose values can all be found are scored without asking.
    precheck: bool = True

    def clear(self, call: ToolCall, view: JudgeView) -> Outcome | None:
        """Return the outcome where it is clear without a judge."""
        unreadable = unreadable_arguments(call)
        if unreadable is not None or not self.precheck:
            return unreadable
        arguments = call.arguments.value if isinstance(call.arguments, Recorded) else None
        return _PRECHECKED if isinstance(arguments, dict) and _is_traced(arguments, view, call.name) else None


def _is_traced(arguments: JsonObject, view: JudgeView, name: str) -> bool:
    """Return whether every argument value occurs verbatim in the texts before the call, and fits the schema as far as it is known."""
    values = list(dict.fromkeys(written(leaf) for leaf in islice(_single_values(arguments), _MAX_VALUES + 1)))
    # "" stands for values that could never be found (true, null, "", an empty list).
    if len(values) > _MAX_VALUES or "" in values:
        return False
    if not _fits(arguments, next((tool for tool in view.tools if tool.name == name), None)):
        return False
    # The texts that the agent had seen.
    texts: list[str] = []
    size = 0
    for entry in view.history:
        if isinstance(entry, Spoken):
            found: Iterable[str] = (entry.text,) if entry.role == "user" else ()
        else:
            found = (written(leaf) for call in entry for leaf in result_leaves(call.result))
        for text in found:
            texts.append(text)
            size += len(text)
            if size > _MAX_CHARACTERS or len(texts) > _MAX_TEXTS:
                return not values
    known = "\n".join(texts)
    return all(occurs_alone(value, known) for value in values)


def _single_values(arguments: JsonObject) -> Iterator[Json]:
    """Yield the values that are no containers, and "" for empty containers."""
    for value in arguments.values():
        stack: list[Json] = [value]
        while stack:
            node = stack.pop()
            if isinstance(node, dict | list) and node:
                stack += node.values() if isinstance(node, dict) else node
            else:
                yield "" if isinstance(node, dict | list) else node


def _fits(arguments: JsonObject, tool: ToolDefinition | None) -> bool:
    """Return whether nothing in the schema's first level speaks against the arguments."""
    schema = tool.parameters if tool is not None else None
    if schema is None:
        return True
    required, properties = schema.get("required"), schema.get("properties")
    if isinstance(required, list) and not all(isinstance(name, str) and name in arguments for name in required):
        return False
    if not isinstance(properties, dict):
        return True
    for name, value in arguments.items():
        member = properties.get(name)
        kind = _KINDS.get(str(member.get("type"))) if isinstance(member, dict) else None
        # In Python a boolean is an integer, too.
        is_stranger = isinstance(value, bool) and kind is not bool
        if name not in properties or (kind is not None and (is_stranger or not isinstance(value, kind))):
            return False
    return True

"""The evaluators of strands-agents-evals 1.7.0: three that match steps, `tool_called`, and four that ask a judge.

The first compare two lists of steps, which are the names of called tools; in a case a step may be any value. A judge gets
the same view as in the original, and its verdict means the same; the prompts are our own (`score/prompts.py`).
"""

import sys
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, cast

from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.judging import Asking, Question
from toolgauge.model.outcomes import JUDGE_RULE, Difference, Errored, Level, Outcome, Scored, Side
from toolgauge.model.ports import Needs
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score import prompts
from toolgauge.score.judged import DEFAULT_HISTORY_CHARS, UNUSABLE, Lines, Writer, question, question_about_call
from toolgauge.score.plain_calls import Looked, OneOutcome, PlainCalls, PlainComparison
from toolgauge.score.prompts import (
    JudgeView,
    Prompt,
    exchanges_by_trace,
    final_answer,
    had_ended,
    user_input,
    view_of_call,
    view_of_last_run,
)
from toolgauge.score.selection import hidden_calls, shown

_NO_CONTAINERS = "a step is a list or an object: the original takes text, numbers, booleans and null"
_NO_STEPS = "no step is expected, and the original divides by their number: at least one is needed"


class _StepScorer(PlainComparison):
    looks = Looked(arguments=False)
    needs_hashes: ClassVar[bool] = False

    def compared(self, expected: PlainCalls, made: PlainCalls) -> Outcome:
        """Compare the names of the calls."""
        # A step of a case that is a list or an object is named by its JSON text.
        has_containers = any(call.name.startswith(("[", "{")) for call in (*expected, *made))
        if has_containers and expected and self.needs_hashes:
            return Errored(error_type="TypeError", message=_NO_CONTAINERS)
        return self.share([call.name for call in made], [call.name for call in expected])

    @abstractmethod
    def share(self, made: Sequence[str], wanted: Sequence[str]) -> Outcome:
        """Compare the steps."""


class ExactMatchScorer(_StepScorer):
    """The share of expected calls that were made at the same place; more calls at the end are free."""

    def share(self, made: Sequence[str], wanted: Sequence[str]) -> Outcome:
        """Compare place by place."""
        if not wanted:
            # Wart: nothing expected is an error here and a success in the other scorers.
            return Errored(error_type="ZeroDivisionError", message=_NO_STEPS)
        return _share(sum(one == other for one, other in zip(made, wanted, strict=False)), len(wanted), "in place")


class InOrderMatchScorer(_StepScorer):
    """How far the expected calls were made in their order, as a share; calls between them are free.

    Calls after the first expected call that was not made do not count.
    """

    def share(self, made: Sequence[str], wanted: Sequence[str]) -> Outcome:
        """Walk along the calls that were made."""
        found = 0
        for step in made:
            found += found < len(wanted) and step == wanted[found]
        return _share(found, len(wanted), "made in order") if wanted else _NOTHING_EXPECTED


class AnyOrderMatchScorer(_StepScorer):
    """The share of expected calls that were made, in any order; other calls are free, and repeats count once."""

    # Steps become members of a set.
    needs_hashes: ClassVar[bool] = True

    def share(self, made: Sequence[str], wanted: Sequence[str]) -> Outcome:
        """Compare as sets."""
        # Wart: steps that are expected twice count once above the line and twice below it.
        return _share(len(set(made) & set(wanted)), len(wanted), "made") if wanted else _NOTHING_EXPECTED


class ToolCalled(OneOutcome):
    """1 if the tool `tool_name` was called, else 0; `name` changes nothing."""

    needs: ClassVar[Needs] = Needs(reference="none", binary=True)

    tool_name: str
    name: str | None = None

    def outcome_of(self, trajectory: Trajectory, expected: Expected | None) -> Outcome:  # noqa: ARG002 (needs no reference)
        """Look for a call of the tool."""
        if trajectory.hidden_turns:
            return hidden_calls(trajectory)
        was_called = any(call.name == self.tool_name for call in trajectory.calls)
        explanation = f"{shown(self.tool_name)} {'was called' if was_called else 'was not called'}"
        return Scored(value=float(was_called), explanation=explanation)

    def original(self, outcome: Outcome, *_: object) -> JsonObject:
        """Return the details in the original's own words."""
        return {"details": {"test_pass": bool(outcome.value)}} if isinstance(outcome, Scored) else {}


_NOTHING_EXPECTED = Scored(value=1.0, explanation="no call is expected")


def _share(found: int, wanted: int, how: str) -> Scored:
    return Scored(value=found / wanted, explanation=f"{found} of {wanted} expected calls were {how}")


_GOOD_ENOUGH = 0.5
_NO_RUN = "no agent run was seen: a run with a prompt and a response is needed (in a case, `traces` with a span of type agent)"
_ONLY_VERSION = "v0"


class _Judge(BaseModel):
    """The parameters that all of them share. `name` changes nothing, `model` may be null only: the configuration names the judge."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    level: ClassVar[Level] = "trajectory"

    name: str | None = None
    model: str | None = None
    # Instructions in place of our own.
    system_prompt: str | None = None
    max_history_chars: int = Field(default=DEFAULT_HISTORY_CHARS, ge=1000, le=10_000_000)

    @field_validator("model")
    @classmethod
    def _is_left_to_the_configuration(cls, model: str | None) -> None:
        if model is not None:
            raise ValueError("names a model; which one is asked is said once, by `judge.model` of the configuration")

    def joined(self, outcomes: Sequence[Outcome]) -> Outcome:
        """Return the mean; one question that could not be answered fails the whole, as the original raises."""
        scored = [outcome for outcome in outcomes if isinstance(outcome, Scored)]
        broken = [outcome for outcome in outcomes if not isinstance(outcome, Scored)]
        if broken or not scored:
            return broken[0] if broken else UNUSABLE
        score = sum(outcome.parts["peer_score"] for outcome in scored) / len(scored)
        passed = all(outcome.parts["test_pass"] for outcome in scored)
        return Scored(
            value=_clamped(score),
            explanation=scored[0].explanation if len(scored) == 1 else f"mean over {len(scored)} verdicts",
            parts={"peer_score": score, "test_pass": float(passed)},
            differences=tuple(difference for outcome in scored for difference in outcome.differences),
        )

    def original(self, outcome: Outcome, *_: object) -> JsonObject:
        """Return the details in the original's own words."""
        if not isinstance(outcome, Scored):
            return {}
        outputs: list[Json] = [difference.actual.value for difference in outcome.differences if difference.actual]
        return {"details": {"outputs": outputs, "test_pass": bool(outcome.parts["test_pass"])}}


def _with_version(schema: dict[str, Any]) -> None:
    schema["properties"]["version"] = {"const": _ONLY_VERSION}


class _LabelJudge(_Judge):
    """Scores the label that the judge gives. The original takes `version`, the one version of its prompts."""

    model_config = ConfigDict(json_schema_extra=_with_version)

    needs: ClassVar[Needs] = Needs(reference="none")
    labels: ClassVar[Mapping[str, float]]

    @model_validator(mode="before")
    @classmethod
    def _has_its_only_version(cls, written: object) -> object:
        if not isinstance(written, dict):
            return written
        # No field: `version` is that of the evaluator. The mapping may hold anything: fields are checked after this.
        parameters = dict(cast("dict[object, object]", written))
        if parameters.pop("version", _ONLY_VERSION) != _ONLY_VERSION:
            raise ValueError(f"knows the prompts of `version: {_ONLY_VERSION}` only")
        return parameters

    def outcome(self, question: Question, verdict: JsonObject) -> Outcome:  # noqa: ARG002 (a verdict says it all)
        """Return the score of the label."""
        label, reasoning = verdict.get("score"), verdict.get("reasoning")
        if not isinstance(label, str) or label not in self.labels or not isinstance(reasoning, str):
            return UNUSABLE
        score = self.labels[label]
        return _output(score, passed=score >= _GOOD_ENOUGH, label=label, reason=reasoning)


class YesOrNo(_LabelJudge):
    """One question a call, Yes or No. Without a call the original scores 0."""

    labels: ClassVar[Mapping[str, float]] = {"Yes": 1.0, "No": 0.0}
    prompt: ClassVar[Prompt]

    def questions(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Asking]:  # noqa: ARG002 (no reference needed)
        """Yield one question a call."""
        if not trajectory.calls:
            yield None, Scored(value=0.0, explanation="no call to judge", parts={"peer_score": 0.0, "test_pass": 0.0})
            return
        lines = Lines()
        for call, view in self.views(trajectory):
            asked = question_about_call(self.prompt, view, call, Writer(self.max_history_chars, lines))
            yield call, asked if self.system_prompt is None else replace(asked, instructions=self.system_prompt)

    def views(self, trajectory: Trajectory) -> Iterator[tuple[ToolCall, JudgeView]]:
        """Yield each call with the view of it that the judge gets."""
        exchanges = exchanges_by_trace(trajectory)
        for number, exchange in enumerate(exchanges):
            for call in exchange.calls:
                yield call, view_of_call(exchanges, number, call, had_ended)


class ToolParameterAccuracy(YesOrNo):
    """`ToolParameterAccuracyEvaluator`."""

    prompt: ClassVar[Prompt] = prompts.TOOL_PARAMETER_ACCURACY
    version: ClassVar[str] = prompts.TOOL_PARAMETER_ACCURACY.version


class ToolSelectionAccuracy(YesOrNo):
    """`ToolSelectionAccuracyEvaluator`."""

    prompt: ClassVar[Prompt] = prompts.TOOL_SELECTION_ACCURACY
    version: ClassVar[str] = prompts.TOOL_SELECTION_ACCURACY.version


class Faithfulness(_LabelJudge):
    """`FaithfulnessEvaluator`: only the last response, against all that came before it."""

    version: ClassVar[str] = prompts.FAITHFULNESS.version
    labels: ClassVar[Mapping[str, float]] = prompts.FAITHFULNESS_LABELS

    def questions(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Asking]:  # noqa: ARG002 (no reference needed)
        """Yield the question about the last response; the original raises where no agent run was seen."""
        seen = view_of_last_run(trajectory)
        if seen is None:
            yield None, Errored(error_type="ValueError", message=_NO_RUN)
            return
        view, response = seen
        writer = Writer(self.max_history_chars)
        history = writer.history(view)
        target = writer.text(prompts.TARGET_RESPONSE, "assistant", response)
        yield None, question(prompts.FAITHFULNESS, (history, target), writer, instructions=self.system_prompt)


class TrajectoryJudge(_Judge):
    """`TrajectoryEvaluator`: the judge gives score and pass itself, and nothing bounds the score.

    The original raises where a case records no trajectory; live there always is one.
    """

    version: ClassVar[str] = prompts.STRANDS_TRAJECTORY_JUDGE.version
    needs: ClassVar[Needs] = Needs(recorded_run=True)

    rubric: str
    # The original takes it and never shows it to the judge.
    trajectory_description: dict[str, object] | None = None
    include_inputs: bool = True

    def questions(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Asking]:
        """Yield the question about the trajectory."""
        writer = Writer(self.max_history_chars)
        sections = tuple(self.sections(trajectory, expected, writer).values())
        instructions = prompts.with_rubric(prompts.STRANDS_TRAJECTORY_JUDGE, self.rubric)
        if self.system_prompt is not None:
            instructions = f"{self.system_prompt}\n\nThe rubric:\n{self.rubric}"
        yield None, question(prompts.STRANDS_TRAJECTORY_JUDGE, sections, writer, instructions=instructions)

    def sections(self, trajectory: Trajectory, expected: Expected | None, writer: Writer) -> dict[str, str]:
        """Return the sections that the judge is shown besides the rubric by name, without the empty ones."""
        output = final_answer(trajectory)
        answer = expected.answer.value if expected is not None and expected.answer is not None else None
        sections: dict[str, str] = {}
        if self.include_inputs:
            sections["Input"] = writer.text(prompts.INPUT, "user", user_input(trajectory) or None)
        if output:
            sections["Output"] = writer.text(prompts.OUTPUT, "assistant", output)
        if answer:
            sections["ExpectedOutput"] = writer.text(prompts.EXPECTED_OUTPUT, "assistant", answer)
        sections["Trajectory"] = writer.calls(prompts.TRAJECTORY, trajectory.calls)
        if expected is not None and expected.calls:
            sections["ExpectedTrajectory"] = writer.expected_calls(expected.calls)
        return sections

    def outcome(self, question: Question, verdict: JsonObject) -> Outcome:  # noqa: ARG002 (a verdict says it all)
        """Turn the verdict into a score."""
        score, passed = verdict.get("score"), verdict.get("test_pass")
        if not isinstance(score, int | float) or isinstance(score, bool) or not isinstance(passed, bool):
            return UNUSABLE
        if not abs(score) <= sys.float_info.max:  # NaN, an infinity, or an integer that no figure can hold
            return UNUSABLE
        return _output(float(score), passed=passed, label=verdict.get("label"), reason=verdict.get("reason"))


def _output(score: float, *, passed: bool, label: Json, reason: Json) -> Scored:
    labels = (*YesOrNo.labels, *Faithfulness.labels)
    words = f"the judge says {label}" if label in labels else "the judge's score"
    given: JsonObject = {"label": label, "reason": reason, "score": score, "test_pass": passed}
    return Scored(
        value=_clamped(score),
        explanation=words,
        parts={"peer_score": score, "test_pass": float(passed)},
        differences=(Difference(where="verdict", rule=JUDGE_RULE, actual=Side(value=given)),),
    )


def _clamped(score: float) -> float:
    return min(1.0, max(0.0, score))

"""`uipath.tool_call_output`: the expected calls were made and gave the expected outputs, compared as text."""

import json
from collections.abc import Sequence

from toolgauge.model.content import NotRecorded
from toolgauge.model.expected import Expected, ExpectedCall
from toolgauge.model.json import JsonObject
from toolgauge.model.outcomes import Difference, Errored, NotEvaluated, Side
from toolgauge.model.trajectory import Trajectory
from toolgauge.originals.uipath.evaluator import (
    Attempts,
    Criteria,
    Judging,
    LiveCall,
    ToolOutput,
    UiPathEvaluator,
    Verdict,
    attempt,
    both_or_one_empty,
    explained,
    hidden_from,
    known_ids,
    made_outputs,
    unsupported,
    written_outputs,
)
from toolgauge.score.selection import shown

_EXPLAINED = "explained_tool_calls_outputs"


class OutputCriteria(Criteria):
    """The expected outputs; they are texts. Wart: an object is refused."""

    tool_outputs: list[ToolOutput]


class ToolCallOutput(UiPathEvaluator[OutputCriteria]):
    """The share of expected outputs that a call of the tool gave, letter for letter.

    `strict`: 0 as soon as an expected output is compared with another one. Wart: with `strict` the order of calls
    matters, without it it does not. Parts: `matched` of `expected` calls, and `calls` that were made.
    """

    strict: bool = False

    @classmethod
    def criteria_type(cls) -> type[OutputCriteria]:
        """Return the model of what is expected."""
        return OutputCriteria

    def criteria_of(self, expected: Expected) -> OutputCriteria | Errored:
        """Take over the expected outputs; a call of which none is expected is not looked at."""
        refusal = unsupported(expected)
        if refusal is not None:
            return refusal
        return OutputCriteria.model_construct(
            tool_outputs=[
                ToolOutput.model_construct(name=call.name, output=_text(call), id=call.call_id)
                for call in expected.calls
                if call.output is not None
            ]
        )

    def judged(self, criteria: OutputCriteria, trajectory: Trajectory) -> Judging:
        """Judge a trajectory."""
        ids = known_ids(key for call in criteria.tool_outputs for key in (call.id, call.name))
        calls = made_outputs(trajectory, ids)
        hidden = [isinstance(call.result, NotRecorded) and call.error is None for call in trajectory.calls]
        name = hidden_from(criteria.tool_outputs, calls, hidden)
        if name is not None:
            return NotEvaluated(
                reason="results_not_recorded", explanation=f"the result of {shown(name)} was not recorded"
            )
        return self._compared(criteria.tool_outputs, calls)

    def judged_as_written(self, criteria: OutputCriteria, actual: JsonObject) -> Judging:
        """Judge what a case says was done."""
        return self._compared(criteria.tool_outputs, written_outputs(actual))

    def _compared(self, expected: list[ToolOutput], calls: Sequence[ToolOutput | LiveCall]) -> Judging:
        def details(explanations: JsonObject) -> JsonObject:
            return {"expected": str(expected), "actual": str(calls), _EXPLAINED: explanations}

        empty = both_or_one_empty(len(expected), len(calls), lambda said: details({"_result": said}))
        if empty is not None:
            return empty

        def equal(wanted: int, made: int) -> bool:
            return expected[wanted].output == calls[made].output

        attempts = attempt(expected, calls, equal, stops=self.strict)
        # What strictness stopped short of was not found either.
        matched = sum(one.is_equal for one in attempts.all)
        return Verdict(
            value=float(matched == len(expected)) if self.strict else matched / len(expected),
            explanation=f"{matched} of {len(expected)} expected outputs were found",
            parts={"matched": matched, "expected": len(expected), "calls": len(calls)},
            differences=tuple(_missing(expected[index]) for index in attempts.missing),
            details=lambda: details(self._explained(attempts, expected, calls)),
        )

    def _explained(
        self, attempts: Attempts, expected: list[ToolOutput], calls: Sequence[ToolOutput | LiveCall]
    ) -> JsonObject:
        lines = explained(attempts, calls, lambda wanted, made: (calls[made].output, expected[wanted].output))
        if not self.strict or not attempts.missing:
            return lines
        # Strict details keep only what broke.
        (missing,) = attempts.missing
        if attempts.all and attempts.all[-1].expected == missing:
            return dict([list(lines.items())[-1]])
        return {"_result": "no-match"}


def _text(call: ExpectedCall) -> str:
    value = None if call.output is None else call.output.value
    # Criteria of ours may expect any value; UiPath compares with its text.
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _missing(call: ToolOutput) -> Difference:
    return Difference(where=shown(call.name), rule="missing", expected=Side(value=call.output))

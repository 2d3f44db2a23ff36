"""`uipath.json_similarity`: how alike the agent's final output and the expected one are."""

import json
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Literal, TypeAlias, cast

from toolgauge.model.expected import Expected
from toolgauge.model.json import Json
from toolgauge.model.left_out import is_cut
from toolgauge.model.outcomes import Errored, NotEvaluated
from toolgauge.model.ports import Needs
from toolgauge.model.trajectory import CASE_OUTPUT, Trajectory
from toolgauge.originals.uipath.evaluator import Criteria, Judging, UiPathEvaluator, Verdict
from toolgauge.score.equality import agreement
from toolgauge.score.plain_calls import kind_of
from toolgauge.score.rules import Similarity

_WHOLE = "*"
_NEAR_ZERO = 1e-12
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_ATTACHMENT = re.compile(r"urn:uipath:cas:file:orchestrator:[a-f0-9-]+\n?\Z", re.IGNORECASE)
_MAX_TEXT = 4 * 1024 * 1024

_Object: TypeAlias = dict[str, object]


# A missing value of the actual output: unlike any leaf.
_ABSENT = object()


class OutputCriteria(Criteria):
    """The expected output."""

    expected_output: dict[str, object] | str


class JsonSimilarity(UiPathEvaluator[OutputCriteria]):
    """The mean likeness of the leaves of the expected output; unexpected leaves cost nothing.

    `target_output_key` is a key, a path such as `a.b[0]` or a list of them; `line_by_line_evaluator` compares the lines
    of two texts one by one. Parts: `leaves` that are expected, and `matched_leaves`, the sum of their likeness.
    """

    case_shape = "output"
    looks_at_calls = False

    target_output_key: str | list[str] = _WHOLE
    line_by_line_evaluator: bool = False
    line_delimiter: str = "\n"

    @property
    def needs(self) -> Needs:
        """What a criterion has to give where the parameters hold no expected output."""
        return Needs(reference="answer" if self.default_evaluation_criteria is None else "any")

    def criteria_of(self, expected: Expected) -> OutputCriteria | Errored | None:
        """Take over the expected answer."""
        if expected.answer is None:
            return self.default_evaluation_criteria
        value = expected.answer.value
        if not isinstance(value, str | dict):
            return Errored(
                error_type="unsupported_reference",
                message=f"UiPath refuses an expected output that is {kind_of(value)}: it must be text or an object",
            )
        return OutputCriteria(expected_output=cast("_Object | str", value))  # JSON objects are mappings of anything

    def judged(self, criteria: OutputCriteria, trajectory: Trajectory) -> Judging:
        """Judge the last message of the assistant, read as JSON where an object is expected."""
        answer = next((message.text for message in reversed(trajectory.messages) if message.role == "assistant"), None)
        if answer is None:
            return NotEvaluated(reason="no_content", explanation="no message of the assistant was recorded")
        if is_cut(answer):
            return NotEvaluated(reason="truncated", explanation="the answer was too long to keep")
        # A case states whether its output is JSON or text.
        key, written = self.target_output_key, trajectory.properties.get(CASE_OUTPUT)
        is_object = key != _WHOLE or not isinstance(criteria.expected_output, str)
        output: object = answer
        # Live, the text of the answer is all that there is of an output that was an object.
        if (written == "json" if written else is_object) and len(answer) <= _MAX_TEXT:
            with suppress(ValueError, RecursionError):
                parsed: object = json.loads(answer)
                output = cast("_Object", parsed) if isinstance(parsed, dict) else answer  # keys of JSON are text
        try:
            expected = _as_floats(_part(criteria.expected_output, key, "expected"))
            actual = _as_floats(_part(output, key, "actual"))
            if self.line_by_line_evaluator and isinstance(key, str):
                return self._by_lines(expected, actual, key)
            return _whole(expected, actual)
        except _OutputError as error:
            return Errored(error_type=error.error_type, message=str(error))
        except OverflowError:
            return Errored(error_type="OverflowError", message="numbers must fit into a float, and one is too large")

    def _by_lines(self, expected: object, actual: object, key: str) -> Judging:
        wanted, found = (_lines(side, self.line_delimiter, key) for side in (expected, actual))
        results: list[Json] = []
        scores: list[float] = []
        for number, (line, other) in enumerate(zip_longest(wanted, found, fillvalue=""), 1):
            try:
                result = _whole(
                    _part(line if key == _WHOLE else {key: line}, key, "expected"),
                    _part(other if key == _WHOLE else {key: other}, key, "actual"),
                )
            except _OutputError:
                # Wart: the error of a line, where the key is a path that leads nowhere, counts as a score of 0.
                result = None
            scores.append(0.0 if result is None else result.value)
            details = None if result is None else result.details()
            results.append(
                {"line_number": number, "actual": other, "expected": line, "score": scores[-1], "details": details}
            )
        return Verdict(
            # Wart: two outputs without any line score 0.
            value=sum(scores) / len(scores) if scores else 0.0,
            explanation=f"mean over {len(scores)} lines",
            parts={"lines": len(scores)},
            details=lambda: {
                "line_by_line_results": results,
                "total_lines_actual": len(found),
                "total_lines_expected": len(wanted),
                "aggregation_method": "average",
            },
        )


class _OutputError(Exception):
    """An output that cannot be compared; `error_type` is UiPath's own code in small letters."""

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(message)
        self.error_type = error_type


def _whole(expected: object, actual: object) -> Verdict:
    matched, leaves = _matched_leaves(expected, actual)
    likeness = matched / leaves if leaves else 1.0
    return Verdict(
        # In this order, as NaN passes through it as the original's does.
        value=max(0.0, min(1.0, likeness)),
        explanation=f"{leaves} leaves are expected",
        parts={"leaves": leaves, "matched_leaves": matched if math.isfinite(matched) else 0.0},
        details=lambda: {
            "expected": str(expected),
            "actual": str(actual),
            "matched_leaves": matched,
            "total_leaves": float(leaves),
        },
    )


def _lines(side: object, delimiter: str, key: str) -> list[str]:
    if not delimiter:
        raise _OutputError(
            "invalid_delimiter", "`line_delimiter` is empty: it must be a text of at least one character"
        )
    if isinstance(side, dict) and key != _WHOLE:
        members = cast("_Object", side)  # keys of JSON are text
        side = members.get(key, members)
    text = side if isinstance(side, str) else str(cast("object", side))  # pyright would look into its items
    return [line for line in text.split(delimiter) if line.strip()]


def _part(output: object, key: str | Sequence[str], side: Literal["expected", "actual"]) -> object:
    """Return the part of an output that the key names; expected text is read as JSON then."""
    if side == "expected" and key != _WHOLE and isinstance(output, str):
        try:
            output = cast("object", json.loads(output))  # typed Any by json
        except ValueError as error:
            raise _OutputError(
                "invalid_expected_output", "the expected output must be JSON where keys are given"
            ) from error
    if isinstance(key, str):
        return _at(output, key, side)
    if isinstance(output, dict):
        return {one: _at(cast("_Object", output), one, side) for one in key}  # keys of JSON are text
    if side == "expected":
        raise _OutputError("invalid_expected_output", "the expected output must be an object where keys are given")
    raise _OutputError("invalid_actual_output", "the output must be an object where `target_output_key` is a list")


def _at(value: object, path: str, side: Literal["expected", "actual"]) -> object:
    steps = [] if path == _WHOLE else list(_STEP.finditer(path))
    if not steps and path != _WHOLE:
        raise _OutputError(
            "invalid_path", "`target_output_key` holds an empty path: a key or a path such as `a.b[0]` is accepted"
        )
    for step in steps:
        name, place = step.groups()
        try:
            if place is None and isinstance(value, dict):
                value = cast("_Object", value)[name]  # as above
            elif place is not None and isinstance(value, list):
                value = cast("list[object]", value)[int(place)]  # nothing is known of the items
            else:
                raise KeyError(name)
        except (KeyError, IndexError, ValueError) as error:
            raise _OutputError(
                "target_output_key_not_found", f"the {side} output lacks the key that `target_output_key` names"
            ) from error
    if side == "actual" and isinstance(value, str) and _ATTACHMENT.match(value):
        raise _OutputError("attachment", "the output is an attachment of a job, which is not downloaded here")
    return value


def _as_floats(value: object) -> object:
    """Copy a value with all numbers as floats; raise `OverflowError` for one that none can hold."""
    top: list[object] = [value]
    stack: list[_Object | list[object]] = [top]
    while stack:
        container = stack.pop()
        for key, item in container.items() if isinstance(container, dict) else enumerate(container):
            copy = item
            if isinstance(item, dict | list):
                copy = cast("_Object", item).copy()  # both kinds of container copy alike
                stack.append(copy)
            elif isinstance(item, int | float) and not isinstance(item, bool):
                copy = float(item)
            container[key] = copy  # pyright: ignore[reportArgumentType,reportCallIssue] (the key is one of this container)
    return top[0]


def _matched_leaves(expected: object, actual: object) -> tuple[float, int]:
    """Sum up the likeness of all expected leaves, and count them. Wart: an empty object or list has none."""
    matched, leaves = 0.0, 0
    stack: list[tuple[object, object]] = [(expected, actual)]
    while stack:
        wanted, found = stack.pop()
        # Members go in reverse, so that the first is taken from the stack first and sums add up as in the original.
        if isinstance(wanted, dict):
            members = cast("_Object", found) if isinstance(found, dict) else {}  # as above
            stack += [(item, members.get(key, _ABSENT)) for key, item in reversed(cast("_Object", wanted).items())]
        elif isinstance(wanted, list):
            items = cast("list[object]", wanted)  # as above
            others = cast("list[object]", found) if isinstance(found, list) else []  # as above
            rest = [_ABSENT] * (len(items) - len(others))
            stack += list(zip(items, [*others[: len(items)], *rest], strict=True))[::-1]
        else:
            leaves += 1
            matched += _likeness(wanted, found)
    return matched, leaves


def _likeness(expected: object, actual: object) -> float:
    if type(expected) is not type(actual):
        return 0.0
    match expected, actual:
        case float(), float():
            if math.isclose(expected, 0.0, abs_tol=_NEAR_ZERO):
                return float(math.isclose(actual, 0.0, abs_tol=_NEAR_ZERO))
            # In this order: NaN comes out as 1, as it does there.
            return max(0.0, min(1.0, 1.0 - abs(expected - actual) / abs(expected)))
        case str(), str():
            return agreement(Similarity(), expected, actual)[0]
        case _:
            return float(expected == actual)

"""Questions to a judge model, and the interface of evaluators that ask one; cost, rate and time are the business of `judge`."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Level, Outcome
from toolgauge.model.trajectory import ToolCall, Trajectory


class Question(Struct, frozen=True, kw_only=True):
    """One request to a judge model; `form` is the JSON Schema of the verdict, `notes` go into the explanation of the outcome.

    Text from spans is in `prompt` only as quoted material, each text on one line (as JSON): secrets are masked line by line.
    """

    instructions: str
    prompt: str
    form_name: str
    form: JsonObject
    notes: tuple[str, ...] = ()


# The judged call (`None` for the trajectory) with its question, or with the outcome where it is clear without asking. A
# plain `None` is ignored.
Asking: TypeAlias = tuple[ToolCall | None, Question | Outcome] | None


@runtime_checkable
class JudgeEvaluator(Protocol):
    """A scoring rule that asks a model; its fields are its parameters. `version` is raised when the text of the prompt changes.

    At level `call` each question is about the call it comes with; at level `trajectory` all of them make one outcome.
    """

    version: ClassVar[str]
    level: ClassVar[Level]

    def questions(self, trajectory: Trajectory, expected: Expected | None) -> Iterable[Asking]:
        """Yield or return what to ask."""
        ...

    def outcome(self, question: Question, verdict: JsonObject) -> Outcome:
        """Turn a verdict that fits the question's form into an outcome."""
        ...

    def joined(self, outcomes: Sequence[Outcome]) -> Outcome:
        """Make one outcome of all questions' outcomes, in their order; asked for at level `trajectory` only."""
        ...


class Inquiry(Struct, frozen=True, kw_only=True, eq=False):
    """One criterion and the part of a trajectory that it judges; `settled` is the outcome where nothing needs to be asked."""

    criterion: str
    evaluator: JudgeEvaluator
    trajectory: Trajectory
    expected: Expected | None
    settled: Outcome | None = None


# The outcome of one question, with the judged call (`None` for the trajectory).
Judged: TypeAlias = tuple[ToolCall | None, Outcome]


class Answers(Struct, frozen=True, kw_only=True, eq=False):
    """The outcomes of all inquiries about a trajectory, in their order."""

    trajectory: Trajectory
    answers: tuple[tuple[Inquiry, tuple[Judged, ...]], ...]


class Judging(Protocol):
    """Takes inquiries and gives each exactly one set of outcomes, some time later. Neither method waits or raises."""

    def put(self, trajectory: Trajectory, inquiries: tuple[Inquiry, ...]) -> None:
        """Take the inquiries about one trajectory; without room, their outcomes are `overload`."""

    def take(self) -> list[Answers]:
        """Hand over the answers since the last call."""
        ...


_WORD = "reason|reasoning|explanation|rationale|justification|analysis|critique|comment|feedback"
_is_reason = re.compile(_WORD, re.IGNORECASE).fullmatch
# Also of JSON that a limit has cut, up to half an escape.
_QUOTED_REASON = re.compile(rf'(?i)"(?:{_WORD})"\s*:\s*("(?:[^"\\]|\\["\\/bfnrt]|\\u[0-9a-f]{{4}})+)')
_FENCE = "```"
_MOST_LAYERS = 4


def _unfenced(text: str) -> str:
    return text.strip().removeprefix(f"{_FENCE}json").removeprefix(_FENCE).removesuffix(_FENCE).strip()


def reason_in(verdict: Json, layers: int = _MOST_LAYERS) -> str:
    """Write the verdict of a judge for people: its reason where there is one, else the members of its JSON."""
    match verdict:
        case str() if layers and (bare := _unfenced(verdict))[:1] in ("{", "["):
            try:
                return reason_in(json.loads(bare, strict=False), layers - 1)
            except (ValueError, RecursionError):
                found = _QUOTED_REASON.search(bare)
            if found is not None:
                return json.loads(f'{found[1]}"', strict=False)
            return re.sub(r'["{}\[\]]+', "", bare) if re.match(r'[{\[\s]+"', bare) else verdict
        case str():
            return verdict
        case dict():
            reasons = [
                value for name, value in verdict.items() if isinstance(value, str) and value and _is_reason(name)
            ]
            if reasons:
                return reason_in(reasons[0], layers)
            return ", ".join(
                f"{name}: {_member(value, layers)}" for name, value in verdict.items() if value is not None
            )
        case list():
            return "; ".join(_member(value, layers) for value in verdict)
        case _:
            return json.dumps(verdict)


def _member(value: Json, layers: int) -> str:
    return reason_in(value, layers - 1) if layers else "..."

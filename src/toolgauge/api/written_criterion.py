"""A criterion written in Python, with the same revision and results as the same criterion in a file."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import EllipsisType
from typing import Literal, Protocol, TypeAlias

from pydantic import BaseModel

from toolgauge import plugins
from toolgauge.config.criteria import CriterionConfig, read_criterion
from toolgauge.config.problems import Place, written
from toolgauge.model.errors import ConfigError
from toolgauge.model.expected import Expected
from toolgauge.model.judging import JudgeEvaluator
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import Trajectory
from toolgauge.service.criteria_factory import checked_evaluator, make_criterion


class EvaluatorObject(Protocol):
    """An evaluator object with `version` and `level`, which are checked later: type checkers would ask for `ClassVar`."""

    def evaluate(self, trajectory: Trajectory, expected: Expected | None, /) -> Iterable[Evaluation]:
        """Yield or return outcomes."""
        ...


# A text is the name of a tool; a list in the list is a group without an order.
ExpectedCalls: TypeAlias = Sequence["str | Mapping[str, object] | Sequence[str | Mapping[str, object]]"]


class Criterion:
    """A criterion: the arguments are the keys of a criteria file, `parameters` belong to an evaluator given by its name.

    `reference` names a file relative to the working directory. Raises `ConfigError` for what a file could not have either.
    """

    __slots__ = ("_revision", "_written")

    def __init__(
        self,
        name: str,
        evaluator: str | EvaluatorObject | JudgeEvaluator,
        *,
        expected: ExpectedCalls | None = None,
        expected_turns: Sequence[ExpectedCalls] | None = None,
        expected_output: object = ...,
        reference: Mapping[str, str] | None = None,
        when: Mapping[str, object] | None = None,
        scope: Literal["trace", "conversation"] | None = None,
        pass_at: float | None = None,
        sample: float | None = None,
        enforce: Literal["live", "shadow"] | None = None,
        **parameters: object,
    ) -> None:
        given: dict[str, object] = {
            "name": name,
            "expected": expected,
            "expected_turns": expected_turns,
            "reference": reference,
            "when": when,
            "scope": scope,
            "pass_at": pass_at,
            "sample": sample,
            "enforce": enforce,
        }
        keys = {key: value for key, value in given.items() if value is not None}
        if not isinstance(expected_output, EllipsisType):
            keys["expected_output"] = expected_output
        self._written = _read(keys, evaluator, parameters)
        self._revision = make_criterion(self._written).revision

    @property
    def name(self) -> str:
        """Its name in results."""
        return self._written.name

    @property
    def evaluator(self) -> str:
        """The name of its evaluator; that of the class where it is not installed."""
        return self._written.evaluator

    @property
    def revision(self) -> str:
        """A digest of its meaning, in 12 characters: the same criterion in a file has the same."""
        return self._revision

    @property
    def written(self) -> CriterionConfig:
        """The criterion as it would have been read from a file."""
        return self._written

    def __repr__(self) -> str:
        return f"Criterion({self.name!r}, {self.evaluator!r}, revision={self.revision!r})"


def _read(
    keys: Mapping[str, object], evaluator: str | EvaluatorObject | JudgeEvaluator, parameters: Mapping[str, object]
) -> CriterionConfig:
    place = Place(f"Criterion({keys['name']!r})")
    if isinstance(evaluator, str):
        return _from({**keys, "evaluator": evaluator, **parameters}, place)
    if isinstance(evaluator, type):
        raise ConfigError(
            f"{place}: the class `{evaluator.__name__}` is given as evaluator, not an object of it",
            hint=f"write `{evaluator.__name__}()`, with its parameters",
        )
    if parameters:
        raise ConfigError(
            f"{place}: `{next(iter(parameters))}` is given beside the evaluator",
            hint="parameters belong into the evaluator's own parentheses",
        )
    name = plugins.evaluator_name(type(evaluator)) or type(evaluator).__name__
    try:
        made = checked_evaluator(evaluator, name)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error.message}") from None
    fields: dict[str, object] = {}
    if isinstance(evaluator, BaseModel):
        # The parameters that were given, as a file would have them.
        fields = evaluator.model_dump(mode="json", exclude_unset=True, by_alias=True)
    return replace(_from({**keys, **fields, "evaluator": name}, place), made_evaluator=made)


def _from(values: Mapping[str, object], place: Place) -> CriterionConfig:
    try:
        node = written(values, place)
    except TypeError as error:
        hint = "values are texts, numbers, lists and mappings, as in a file"
        raise ConfigError(f"{place}: {error}", hint=hint) from None
    return read_criterion(node)

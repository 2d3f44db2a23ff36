"""The fixture `scored`: the tool calls of one test, and the assertion that criteria pass on them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from opentelemetry.sdk.trace import ReadableSpan

from toolgauge.api.evaluation import CriterionResult, Evaluation
from toolgauge.api.written_criterion import Criterion
from toolgauge.model.content import Content, Recorded, Unparsed
from toolgauge.model.errors import ToolgaugeError
from toolgauge.model.json import Json
from toolgauge.model.plain_words import error_words
from toolgauge.model.trajectory import CallState, Trajectory
from toolgauge.pytest_plugin.collector import Collector, Request, obstacle
from toolgauge.pytest_plugin.failure_text import (
    Circumstances,
    failure_text,
    in_order,
    nothing_collected,
    shortfalls_of,
    shortfalls_of_all,
)
from toolgauge.pytest_plugin.marked_criteria import CASE_KEY, LoadedCriteria, TestSettings
from toolgauge.score.criterion import Criterion as RegisteredCriterion

# Reads the criteria of a test, or has read them before.
LoadCriteria: TypeAlias = Callable[[TestSettings, Sequence[Criterion]], LoadedCriteria]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One tool call as plain values.

    `arguments` and `result` are what JSON they were, text where they are none, and `None` where the framework did not record
    them. Calls of one `turn` were asked for together. `error` is what went wrong.
    """

    name: str
    arguments: Json
    result: Json
    error: str | None
    turn: int
    agent: str | None
    state: CallState


class Scored:
    """The tool calls of one test. `case` names the case that criteria with a `reference` look up."""

    def __init__(self, collector: Collector, settings: TestSettings, load: LoadCriteria) -> None:
        self.case = settings.case
        # The results of the criteria that the test asserted, by name.
        self.asserted: dict[str, tuple[CriterionResult, ...]] = {}
        self._collector = collector
        self._settings = settings
        self._load = load
        self._collection = collector.begin()
        self._evaluated: dict[object, Evaluation] = {}

    def collect(self, provider: object) -> None:
        """Collect from a tracer or logger provider that is not the global one, from now on."""
        if not self._collector.collect(provider):
            kind = type(provider)
            raise TypeError(
                f"`{kind.__module__}.{kind.__qualname__}` takes no span or log record processors: give a provider of the SDK"
            )

    def clear(self) -> None:
        """Forget the spans and records collected so far."""
        self._collection.clear()
        self._evaluated.clear()

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """The spans that have ended."""
        return self._collection.spans

    @property
    def trajectories(self) -> tuple[Trajectory, ...]:
        """One for each trace, in the order of their begin; and one for each conversation where a criterion asks for it."""
        __tracebackhide__ = True
        return tuple(one.trajectory for one in in_order(self.evaluation))

    @property
    def calls(self) -> tuple[Call, ...]:
        """The tool calls of all traces, those of one trace in the model's order."""
        __tracebackhide__ = True
        return tuple(
            Call(
                name=call.name,
                arguments=_value(call.arguments),
                result=_value(call.result),
                error=None if call.error is None else f"{error_words(call.error.kind)}: {call.error.message}",
                turn=call.turn,
                agent=call.agent,
                state=call.state,
            )
            for one in self.trajectories
            if one.scope == "trace"
            for call in one.calls
        )

    @property
    def evaluation(self) -> Evaluation:
        """The results of all criteria of the test."""
        __tracebackhide__ = True
        return self._evaluate(())[2]

    def assert_passes(self, *criteria: str | Criterion) -> None:
        """Fail the test unless these criteria have passed, of those in the test's files or written here.

        Without any, all criteria that decide have to pass. What could not be evaluated has not passed.
        """
        __tracebackhide__ = True
        loaded, wanted, evaluation = self._evaluate(criteria)
        found = shortfalls_of(wanted, evaluation) if wanted else shortfalls_of_all(loaded.criteria, evaluation)
        fallen_short = {one.criterion.name for one in found}
        for one in wanted or loaded.criteria:
            # Without a reference, most default criteria look for what a good run does not have.
            if wanted or not one.is_default or one.name in fallen_short:
                self.asserted[one.name] = evaluation.of(one.name)
        if found:
            raise AssertionError(
                failure_text(
                    found,
                    evaluation,
                    loaded.redactor,
                    Circumstances(
                        unfinished=self._collection.unfinished, unmatched=loaded.unmatched(evaluation), case=self.case
                    ),
                )
            )

    def recording(self) -> Iterator[Request]:
        """Encode the spans and records, with the case and the attributes of the test."""
        return self._collection.requests(self._attributes(()))

    def _evaluate(
        self, criteria: Sequence[str | Criterion]
    ) -> tuple[LoadedCriteria, Sequence[RegisteredCriterion], Evaluation]:
        __tracebackhide__ = True
        try:
            loaded = self._load(self._settings, [one for one in criteria if isinstance(one, Criterion)])
            wanted = loaded.named([one if isinstance(one, str) else one.name for one in criteria])
            if not self._collection.spans:
                raise AssertionError(nothing_collected(self._collection.unfinished, obstacle()))
            key = (self._collection.size, self.case, loaded)
            if key not in self._evaluated:
                self._evaluated[key] = loaded.evaluate(self._collection.requests(self._attributes(loaded.case_keys)))
        except ToolgaugeError as error:
            # Without the frames in between, which read files.
            raise type(error)(error.message, hint=error.hint) from None
        return loaded, wanted, self._evaluated[key]

    def _attributes(self, case_keys: Iterable[str]) -> dict[str, str]:
        case = {} if self.case is None else dict.fromkeys((CASE_KEY, *case_keys), self.case)
        return {**self._settings.attributes, **case}


def _value(content: Content) -> Json:
    match content:
        case Recorded(value=value):
            return value
        case Unparsed(text=text):
            return text
        case _:
            return None

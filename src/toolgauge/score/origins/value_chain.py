"""Follows the argument values of a call back: to the user, to the results of earlier calls and to the values of these calls.

Arrives: a closed trajectory and one of its calls. Leaves: `CallOrigins`. Values are found as `grounded_arguments` finds them; words
that it does not look for are looked for here as they are written. Bounded, as people wait for it and spans are hostile.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice

from msgspec.structs import replace

from toolgauge.model.json import Json, JsonObject
from toolgauge.model.left_out import NOTHING_LEFT_OUT
from toolgauge.model.masks import is_mask
from toolgauge.model.outcomes import Result
from toolgauge.model.trajectory import Message, ToolCall, Trajectory
from toolgauge.model.value_origins import CallOrigins, ValueOrigin, ValueSource
from toolgauge.score.failing_calls import failing_calls
from toolgauge.score.origins import value_forms
from toolgauge.score.origins.grounding import Seen, Texts, folded_json
from toolgauge.score.origins.value_origin import MAX_VALUES, Value, is_prose, origin, values_of
from toolgauge.score.selection import readable_arguments

# Values of the call itself and of each call behind it, steps back, and calls that are looked at in all.
_MAX_VALUES, _MAX_VALUES_BEHIND, _MAX_STEPS, _MAX_CALLS = 20, 4, 8, 12
# Failing calls of a run whose values are followed.
_MAX_FAILING = 5
# So many results before a call are searched, the nearest ones.
_MAX_RESULTS = 200
# Shorter words, and numbers below 10, are in many results by chance.
_SHORTEST_IN_RESULTS = 4


def value_chain(trajectory: Trajectory, call: ToolCall) -> CallOrigins:
    """Return where each argument value of a call comes from, with the origins of the calls whose results it is from.

    Rule: a value is the user's where the user named it before the call, else of the first call whose result held it, else the
    system prompt's or the tool description's, else worked out from such values, else the model's own.
    """
    return _Tracer(trajectory).origins(call, _MAX_STEPS, _MAX_VALUES)


def failing_chains(
    trajectory: Trajectory, results: Sequence[Result], calls: Sequence[ToolCall] | None = None
) -> Mapping[int, CallOrigins]:
    """Return the value chains of the first failing calls of a run by their `order`, of those in `calls` alone where it is given."""
    wanted = None if calls is None else {call.order for call in calls}
    failing = failing_calls(results, trajectory.calls)
    chosen = [call for call in failing if wanted is None or call.order in wanted]
    return {call.order: value_chain(trajectory, call) for call in chosen[:_MAX_FAILING]}


class _Tracer:
    """Follows values through one trajectory."""

    def __init__(self, trajectory: Trajectory) -> None:
        # Rule: what one agent asks of another was written by a model, so that its values are followed further back.
        outer = tuple(run for run in trajectory.runs if run.above is None)
        prompts = {run.prompt for run in trajectory.runs if run.above is not None} - {run.prompt for run in outer}
        messages = [one for one in trajectory.messages if one.turn == 0 or one.text not in prompts]
        if len(outer) == 1 and outer[0].prompt:
            messages.append(Message(role="user", text=outer[0].prompt, turn=0))
        self._trajectory = replace(trajectory, runs=outer, messages=tuple(messages))
        self._known: dict[int, CallOrigins] = {}
        self._calls_left = _MAX_CALLS

    def origins(self, call: ToolCall, steps: int, most: int) -> CallOrigins:
        known = self._known.get(call.order)
        if known is not None:
            return known
        values = list(islice(_single_values(readable_arguments(call) or {}), MAX_VALUES))
        if not steps or not self._calls_left:
            return CallOrigins(call=call, values=(), more=len(values))
        self._calls_left -= 1
        search = _Search(self._trajectory, call)
        found: list[ValueOrigin] = []
        looked_at = 0
        for value in values[:_MAX_VALUES]:
            if len(found) == most:
                break
            looked_at += 1
            source = search.source(value)
            # Behind the call they say nothing about its values.
            if source == "common" and most != _MAX_VALUES:
                continue
            before = search.holder(value) if source == "result" else None
            result_of = None if before is None else self.origins(before, steps - 1, _MAX_VALUES_BEHIND)
            found.append(ValueOrigin(path=value.path, value=value.content, source=source, result_of=result_of))
        made = CallOrigins(call=call, values=tuple(found), more=len(values) - looked_at)
        self._known[call.order] = made
        return made


class _Search:
    """Looks for the values of one call in what came before it."""

    def __init__(self, trajectory: Trajectory, call: ToolCall) -> None:
        self._trajectory = trajectory
        self._call = call
        self._seen = Seen(trajectory)
        self._seen.before(call)

    def source(self, value: Value) -> ValueSource:
        content = value.content
        if content is True or not content or (isinstance(content, str) and not content.strip()):
            return "common"
        found = None if _is_long(value) else origin(value, self._call.name, self._seen)
        if found == "free" or _is_long(value):
            return self._source_of_words(value)
        if found is None:
            is_masked = isinstance(content, str) and is_mask(content)
            return "unknown" if self._seen.gap is not None or is_masked else "model"
        return "system" if found == "known" else found

    def holder(self, value: Value) -> ToolCall | None:
        """Return the first call whose result held a value; `None` where no single one holds all of it."""
        is_words = _is_long(value) or origin(value, self._call.name, self._seen) == "free"
        for call, seen in self._results:
            if is_words and _stands_in(value, seen.results):
                return call
            if not is_words and origin(value, self._call.name, seen) == "result":
                return call
        return None

    def _source_of_words(self, value: Value) -> ValueSource:
        """Look for words that an agent may choose freely: they are somebody else's only where they stand as they are."""
        is_short = not isinstance(value.content, str) or len(value.content.strip()) < _SHORTEST_IN_RESULTS
        seen, schema = self._seen, self._seen.schema(self._call.name)
        places: tuple[tuple[ValueSource, Texts], ...] = (
            ("user", seen.user),
            *(() if is_short else (("result", seen.results), ("system", seen.system), ("schema", schema))),
        )
        for source, texts in places:
            if _stands_in(value, texts):
                return source
        if is_short:
            return "common"
        return "unknown" if seen.gap is not None else "model"

    @cached_property
    def _results(self) -> list[tuple[ToolCall, Seen]]:
        """What could be known of each earlier call's result alone."""
        earlier = [one for one in self._trajectory.calls if one.order < self._call.order]
        alone = replace(self._trajectory, messages=(), runs=(), tools_offered=None, left_out=NOTHING_LEFT_OUT)
        alone = replace(alone, registered_tools={})
        found = [(one, Seen(replace(alone, calls=(one,)))) for one in earlier[-_MAX_RESULTS:]]
        for _, seen in found:
            seen.before(self._call)
        return found


def _single_values(arguments: JsonObject) -> Iterator[Value]:
    """Yield the single values in the order of the arguments; 0, true, false and empty texts only at the top, null nowhere."""
    for name, member in arguments.items():
        inner: Json = {name: member}
        found = values_of(inner)
        if not found and isinstance(member, bool | int | float | str):
            yield Value((name,), name, member)
        yield from found


def _is_long(value: Value) -> bool:
    return isinstance(value.content, str) and is_prose(value.content.strip())


def _stands_in(value: Value, texts: Texts) -> bool:
    """Return whether a text stands somewhere as it is, by itself or in JSON, or a number however it is written."""
    if not isinstance(value.content, str):
        return value.content in texts.numbers
    text = value.content.strip()
    in_json = (folded_json([text]) or b"")[2:-2]
    return any(texts.has_phrase(phrase) for phrase in dict.fromkeys((value_forms.folded(text), in_json)) if phrase)

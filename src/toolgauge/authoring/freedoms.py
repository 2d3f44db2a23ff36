"""Finds argument values specific to one run, by their form and by their origin.

An id that the user gave is a part of the task; one that the run made up or created is not. Secrets are always left free.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from msgspec import Struct

from toolgauge.authoring.value_profiles import form_of, is_id_name
from toolgauge.export.redact import Redactor
from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.literals import clean
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.equality import moment
from toolgauge.score.origins import value_forms
from toolgauge.score.origins.grounding import Seen
from toolgauge.score.origins.value_origin import Value, is_id, origin, values_of
from toolgauge.score.recorded_values import result_value
from toolgauge.score.selection import shown

# Where a value stands: an argument, and the keys below it; `None` is any item of a list.
Place: TypeAlias = tuple[str | None, ...]

_MAX_VALUES, _MAX_DEPTH, _MAX_TEXT = 500, 12, 4000
_MAX_KEY, _MAX_MADE, _LONGEST_PHRASE = 100, 10_000, 80
_MAX_PHRASES = 200
_DAY_NS = 86_400 * 10**9
# Seconds, milliseconds, microseconds and nanoseconds since 1970.
_CLOCK_UNITS_NS = (10**9, 10**6, 10**3, 1)
_FIRST_CLOCK = 10**9
_LONG_NUMBER = 10**11
_LARGEST_NUMBER = 10**300
_EPOCH_DAY = datetime(1970, 1, 1, tzinfo=UTC).toordinal()
_TODAY = re.compile(r"\d{4}-\d\d-\d\d")


class Freedom(Struct, frozen=True, kw_only=True):
    """Why a value is left free. One that `is_certain` stays free even where several runs have the same value."""

    why: str
    is_certain: bool = False


_SECRET = Freedom(why="looks like a secret or an address", is_certain=True)
_CLOCK = Freedom(why="the time of the run", is_certain=True)
_TEXT = Freedom(why="free text")
_LONG_TEXT = Freedom(why="a long text", is_certain=True)
_DAY = Freedom(why="a day or time that nobody had named")
_RELATIVE_DAY = Freedom(why="a day that is relative to the run")
_UNSEEN_ID = Freedom(why="an id that nothing before the call had shown")
_UNWRITABLE = Freedom(why="a file cannot hold it", is_certain=True)
_UNSEEN = Freedom(why="a value that nothing before the call had shown")


class Freedoms:
    """Looks at the calls of one run: `before` and then `of` with each call, in their order, and `note_made` after it."""

    def __init__(self, trajectory: Trajectory, redactor: Redactor) -> None:
        self._seen = Seen(trajectory)
        self._redactor = redactor
        self._made: dict[str, str] = {}
        self._times_ns = (trajectory.start_ns, trajectory.end_ns)
        self._phrases = 0

    def before(self, call: ToolCall) -> None:
        """Take everything known when this call was requested."""
        self._seen.before(call)

    def note_made(self, call: ToolCall) -> None:
        """Take the new ids in the result of a call that changed something: it has made them."""
        if not isinstance(call.result, Recorded):
            return
        arguments = call.arguments.value if isinstance(call.arguments, Recorded) else None
        given = {_text_of(value.content) for value in values_of(arguments)}
        for value in values_of(result_value(call.result.value)):
            text = _text_of(value.content)
            if not is_id(value) or text in given or len(self._made) >= _MAX_MADE:
                continue
            word = value_forms.word(text)
            if word is not None and self._seen.word(word, call.name) is None:
                self._made.setdefault(text, call.name)

    def too_much(self, args: JsonObject) -> str | None:
        """Return the reason why arguments cannot be a reference for others; `None` where they can."""
        for values, place in enumerate(_places(args)):
            if values >= _MAX_VALUES or len(place) > _MAX_DEPTH:
                return "its arguments are too large or too deep to be compared by value"
            key = (place[-1] if place else None) or ""
            if not (len(key) <= _MAX_KEY and clean(key) == self._redactor.masked(key) == key):
                return "a key in its arguments is very long, or looks like a secret"
        return None

    def of(self, call: ToolCall, args: JsonObject) -> Mapping[Place, Freedom]:
        """Return the places whose value holds for this run only."""
        free: dict[Place, Freedom] = {}
        for place in _places(args):
            if place and place[-1] is not None and self._redactor.is_private(place[-1]):
                free[place] = _SECRET
        for value in values_of(args):
            content = value.content
            made_by = self._made.get(_text_of(content))
            if made_by is not None:
                found = Freedom(why=f"made in the run by {shown(made_by)}")
            elif isinstance(content, str):
                found = self._of_text(value, content, call.name)
            elif not abs(content) < _LARGEST_NUMBER:
                found = _UNWRITABLE
            elif abs(content) >= _LONG_NUMBER and self._redactor.masked(str(int(content))) != str(int(content)):
                found = _SECRET
            else:
                moments = [int(content) * unit for unit in _CLOCK_UNITS_NS if content >= _FIRST_CLOCK]
                if any(abs(moment_ns - one) < _DAY_NS for moment_ns in moments for one in self._times_ns):
                    found = _CLOCK
                elif not (is_id(value) or is_id_name(value.name)) or self._is_known(value, call.name):
                    found = None
                else:
                    found = _UNSEEN_ID
            place = place_of(value.steps)
            # A list has one place for all of its items: the secret among them decides.
            if found is not None and (found.is_certain or place not in free):
                free[place] = found
        return free

    def _of_text(self, value: Value, text: str, tool: str) -> Freedom | None:
        """Return the reason to leave a text out of a reference; `None` keeps it."""
        if len(text) > _MAX_TEXT:
            return _LONG_TEXT
        # Halves of characters come from JSON that was cut.
        if clean(text) != text:
            return _UNWRITABLE
        if self._redactor.masked(text) != text:
            return _SECRET
        match form_of(text):
            case "label" | "decimal" | "empty":
                return None
            case "date" | "datetime" | "time":
                found = origin(value, tool, self._seen)
                # A day in instructions is mostly the day of the run.
                if found == "system" or (found != "user" and self._is_today(text.strip())):
                    return _CLOCK
                return _DAY if found is None else _RELATIVE_DAY if found == "derived" else None
            case "text":
                if len(text) > _LONGEST_PHRASE or self._phrases >= _MAX_PHRASES:
                    return _TEXT
                self._phrases += 1
                phrase, seen = value_forms.folded(text.strip()), self._seen
                # Spelled in the tool's definition, or by the user or the instructions.
                is_agreed = any(texts.has_phrase(phrase) for texts in (seen.schema(tool), seen.user, seen.system))
                return None if is_agreed else _TEXT
            case "uuid":
                # Nobody types a UUID: without an origin it is made up even where not everything was recorded.
                return _UNSEEN_ID if origin(value, tool, self._seen) is None else None
            case "identifier":
                return None if self._is_known(value, tool) else _UNSEEN_ID
            case _:
                return None if self._is_known(value, tool) else _UNSEEN

    def _is_known(self, value: Value, tool: str) -> bool:
        """Return whether a value had been seen, or may be in an unrecorded part of the run."""
        return origin(value, tool, self._seen) is not None or self._seen.gap is not None

    def _is_today(self, text: str) -> bool:
        found = moment(text)
        if found is None or found.day is None or _TODAY.match(text) is None:
            return False
        return any(abs(found.day - int(time_ns // _DAY_NS) - _EPOCH_DAY) <= 1 for time_ns in self._times_ns)


def _places(args: Json) -> Iterator[Place]:
    """Yield the places of a value and of everything within."""
    stack: list[tuple[Place, Json]] = [((), args)]
    while stack:
        place, node = stack.pop()
        yield place
        if isinstance(node, list):
            stack += [((*place, None), member) for member in node]
        elif isinstance(node, dict):
            stack += [((*place, key), member) for key, member in node.items()]


def without_long_texts(value: Json) -> Json:
    """Return arguments without the texts that are too long to compare: many runs are kept."""
    if isinstance(value, dict):
        return {key: without_long_texts(member) for key, member in value.items()}
    if isinstance(value, list):
        return [without_long_texts(member) for member in value]
    return "" if isinstance(value, str) and len(value) > _MAX_TEXT else value


def place_of(steps: tuple[str | int | None, ...]) -> Place:
    """Return the place of a value: a list is left free as a whole where one of its single items is."""
    place = [step if isinstance(step, str) else None for step in steps]
    while place and place[-1] is None:
        place.pop()
    return tuple(place)


def _text_of(content: str | float) -> str:
    """Write a value as text, a number that is too large for an id as an empty one."""
    return content if isinstance(content, str) else str(content) if abs(content) < _LARGEST_NUMBER else ""

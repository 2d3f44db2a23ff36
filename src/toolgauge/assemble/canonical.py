"""Keys that match two views of the same call, for joining only: scores compare values elsewhere.

1 equals 1.0, and booleans are no numbers.
"""

from collections.abc import Hashable
from math import isnan

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, is_large, spelled

# Deeper values are equal as far as joining is concerned; without a floor a hostile value exhausts the stack.
_MAX_DEPTH = 64


def value_key(value: Json, depth: int = 0) -> Hashable:
    """Return a key that is equal for equal values."""
    if depth > _MAX_DEPTH:
        return ("deep",)
    if type(value) is str:
        return value
    match value:
        case dict():
            return ("object", *[(key, value_key(value[key], depth + 1)) for key in sorted(value)])
        case list():
            return ("list", *[value_key(item, depth + 1) for item in value])
        case bool() | None:
            return ("constant", value)
        case float() if isnan(value):
            return ("nan",)
        case int() | float() if is_large(value):
            return ("large", spelled(value))
        case _:
            return value


def arguments_key(arguments: Content) -> Hashable | None:
    """Return a key for the arguments of a call; `None` when they were not recorded and so equal nothing."""
    if type(arguments) is Recorded:
        value = arguments.value
    elif type(arguments) is Unparsed:
        value = arguments.text
    else:
        return None
    return ("text", value.strip()) if type(value) is str else value_key(value)


def likeness(requested: Content, executed: Content) -> float:
    """Return how alike arguments are, 0 to 1: producers fill in defaults, repair values, or write an only argument bare."""
    if not isinstance(requested, Recorded) or not isinstance(requested.value, dict):
        return 0.0
    wanted = requested.value
    match executed:
        case Recorded(value=dict() as given):
            shared = sum(1 for key in wanted if key in given and value_key(wanted[key]) == value_key(given[key]))
            return shared / max(1, len(wanted.keys() | given.keys()))
        case Recorded(value=bare):
            return float(_is_only_value(bare, wanted))
        case Unparsed(text=text):
            return float(_is_only_value(text, wanted))
        case NotRecorded():
            return 0.0


def adds_to(executed: JsonObject, requested: Content) -> bool:
    """Return whether executed arguments hold all that was requested: the same members, or broken text as the only value."""
    match requested:
        case Recorded(value=dict() as wanted) if wanted:
            return all(key in executed and value_key(executed[key]) == value_key(wanted[key]) for key in wanted)
        case Unparsed(text=text):
            return list(executed.values()) == [text]
        case _:
            return False


def _is_only_value(bare: Json, wanted: dict[str, Json]) -> bool:
    return len(wanted) == 1 and all(value_key(value) == value_key(bare) for value in wanted.values())

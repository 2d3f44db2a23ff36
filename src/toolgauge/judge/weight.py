"""About how much memory a trajectory keeps while it waits: a bound on their number alone would be none on memory."""

from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.json import Json
from toolgauge.model.trajectory import Trajectory

_ENTRY_BYTES = 64
_CALL_BYTES = 1024
# What is beyond is taken for as heavy as what was looked at: counting must not take longer than a slice.
_MAX_ENTRIES = 5000


def weight(trajectory: Trajectory) -> int:
    """Estimate the bytes that the texts, arguments and results of a trajectory take."""
    texts = sum(len(message.text) for message in trajectory.messages)
    values: list[Json] = []
    for call in trajectory.calls:
        for content in (call.arguments, call.result):
            match content:
                case Recorded(value=value):
                    values.append(value)
                case Unparsed(text=text):
                    texts += len(text)
                case _:
                    pass
    return texts + len(trajectory.calls) * _CALL_BYTES + _weight(values)


def _weight(values: list[Json]) -> int:
    size = looked_at = 0
    while values and looked_at < _MAX_ENTRIES:
        value = values.pop()
        looked_at += 1
        size += _ENTRY_BYTES
        match value:
            case str():
                size += len(value)
            case list():
                values.extend(value)
            case dict():
                size += sum(map(len, value))
                values.extend(value.values())
            case _:
                pass
    return size + len(values) * size // max(1, looked_at)

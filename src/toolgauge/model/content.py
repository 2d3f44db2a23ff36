"""Arguments and results as far as they could be observed."""

from typing import Literal, TypeAlias

from msgspec import Struct

from toolgauge.model.json import Json


class Recorded(Struct, frozen=True, gc=False):
    """The value, decoded. For arguments it is an object when the producer kept to the rules."""

    value: Json


class Unparsed(Struct, frozen=True, gc=False):
    """Text that should have been structured and is not (broken JSON, or cut off by a limit)."""

    text: str
    reason: Literal["unparsable", "truncated"] = "unparsable"


class NotRecorded(Struct, frozen=True):
    """The producer did not export the value: a fact, not an empty value."""

    reason: Literal["not_recorded", "redacted"] = "not_recorded"


Content: TypeAlias = Recorded | Unparsed | NotRecorded

NOT_RECORDED = NotRecorded()

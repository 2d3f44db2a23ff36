"""Arguments and results as far as they could be observed."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from toolgauge.model.json import Json
from toolgauge.model.quick import quick


@quick
@dataclass(frozen=True, slots=True)
class Recorded:
    """The value, decoded. For arguments it is an object when the producer kept to the rules."""

    value: Json


@quick
@dataclass(frozen=True, slots=True)
class Unparsed:
    """Text that should have been structured and is not (broken JSON, or cut off by a limit)."""

    text: str
    reason: Literal["unparsable", "truncated"] = "unparsable"


@dataclass(frozen=True, slots=True)
class NotRecorded:
    """The producer did not export the value: a fact, not an empty value."""

    reason: Literal["not_recorded", "redacted"] = "not_recorded"


Content: TypeAlias = Recorded | Unparsed | NotRecorded

NOT_RECORDED = NotRecorded()

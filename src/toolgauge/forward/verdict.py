"""What became of one attempt to send. Whether an error may be retried is decided when it is made one of these."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Delivered:
    """The destination has it, but for `rejected` items, which it will never take (`partial_success`)."""

    rejected: int = 0


@dataclass(frozen=True, slots=True)
class Transient:
    """It may work later. `told_s` is the wait the destination asked for, `None` when it asked for none."""

    reason: str
    told_s: float | None = None


@dataclass(frozen=True, slots=True)
class Permanent:
    """It will never work: sending the same bytes again is noise."""

    reason: str


Verdict: TypeAlias = Delivered | Transient | Permanent

DELIVERED = Delivered()

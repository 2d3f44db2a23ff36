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
    """It will never work: sending the same bytes again is noise.

    `is_lasting` is for what is wrong with the destination or how we ask it (a token, a path): the next request will
    fare the same, until somebody does something.
    """

    reason: str
    is_lasting: bool = False


Verdict: TypeAlias = Delivered | Transient | Permanent

DELIVERED = Delivered()

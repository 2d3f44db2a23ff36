"""The sections `inbox` and `hold`."""

from typing import Annotated

from pydantic import Field

from toolgauge.settings import MIB, SECOND, Duration, Section, Size


class InboxSettings(Section):
    """Requests that are acknowledged and not yet read."""

    max_bytes: Annotated[Size, Field(gt=0)] = 64 * MIB


class HoldSettings(Section):
    """How long spans may wait for their scores, and how many bytes of them."""

    timeout: Duration = 30 * SECOND
    max_bytes: Size = 64 * MIB

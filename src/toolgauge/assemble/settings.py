"""The section `assemble`: how long traces stay open, and how much of them is kept."""

from typing import Annotated

from pydantic import ConfigDict, Field

from toolgauge.settings import HOUR, MIB, MINUTE, SECOND, Count, Duration, PositiveDuration, Section, Size


class LateMemory(Section):
    """How many closed traces are remembered, and for how long, so that late spans are known as such."""

    model_config = ConfigDict(serialize_by_alias=True)

    traces: Count = 100_000
    for_: Annotated[PositiveDuration, Field(alias="for")] = 10 * MINUTE


class AssembleSettings(Section):
    """When a trajectory closes, and how many may be open.

    `max_content_bytes` bounds the text of one open trace, `max_open_bytes` all open traces. `sender_retry` is how long senders
    keep unsent data: a run of that time before the start of this process may lack spans.
    """

    run_end_grace: Duration = 6 * SECOND
    sender_retry: Duration = 10 * MINUTE
    idle_timeout: PositiveDuration = 30 * SECOND
    open_idle_timeout: PositiveDuration = 15 * MINUTE
    conversation_idle_timeout: PositiveDuration = 10 * MINUTE
    max_duration: PositiveDuration = 4 * HOUR
    max_open: Count = 20_000
    max_open_bytes: Annotated[Size, Field(gt=0)] = 256 * MIB
    max_content_bytes: Size = 1 * MIB
    late_memory: LateMemory = LateMemory()

"""How long traces stay open and how much of them is kept: the configuration's `assemble` section, in plain units."""

from dataclasses import dataclass

_SECOND_NS = 1_000_000_000
_MINUTE_NS = 60 * _SECOND_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembleSettings:
    """Limits of assembling. `max_content_bytes` bounds the text of one open trace, `max_open_bytes` all of them."""

    run_end_grace_ns: int = 6 * _SECOND_NS
    idle_timeout_ns: int = 30 * _SECOND_NS
    open_idle_timeout_ns: int = 15 * _MINUTE_NS
    conversation_idle_timeout_ns: int = 10 * _MINUTE_NS
    max_duration_ns: int = 240 * _MINUTE_NS
    max_open: int = 20_000
    max_open_bytes: int = 256 * 1024 * 1024
    max_content_bytes: int = 1024 * 1024
    late_traces: int = 100_000
    late_for_ns: int = 10 * _MINUTE_NS

"""Reads finish reasons of models whose answer is not whole."""

import re
from collections.abc import Mapping
from functools import lru_cache

from toolgauge.model.json import Value
from toolgauge.model.observations import Ending

# The words of OpenAI, Anthropic, Google, Bedrock, Mistral and the AI SDK.
_ENDINGS: Mapping[str, Ending] = {
    **dict.fromkeys(("length", "max_tokens", "maxtokens", "model_length", "max_output_tokens"), "length"),
    **dict.fromkeys(("content_filter", "content_filtered", "contentfilter", "guardrail_intervened"), "content_filter"),
    **dict.fromkeys(("safety", "recitation", "blocklist", "prohibited_content", "spii"), "content_filter"),
    "refusal": "refusal",
}
_REASON = re.compile(r"[A-Za-z][A-Za-z_-]*")
_LONGEST = 200
# It comes last in a message, which is the last of an output.
_FINISH = re.compile(r"finish_reason\W{1,6}(\w{1,40})\W{0,8}$")
_TAIL = 80


def ending(reasons: Value) -> Ending | None:
    """Return the ending that the last finish reason names."""
    reason = reasons[-1] if isinstance(reasons, list) and reasons else reasons
    return _ending(reason) if isinstance(reason, str) and len(reason) <= _LONGEST else None


def finish_in(written: Value) -> Value:
    """Return the finish reason that the last message of an output names itself; `None` without any."""
    if isinstance(written, str):
        found = _FINISH.search(written[-_TAIL:])
        return None if found is None else found[1]
    last = written[-1] if isinstance(written, list) and written else None
    return last.get("finish_reason") if isinstance(last, dict) else None


def is_for_tools(finish: Value) -> bool:
    """Return whether a finish reason means that the model asked for tools."""
    return isinstance(finish, str) and finish.lower().startswith(("tool", "function"))


# The same few words come with each model call.
@lru_cache(maxsize=128)
def _ending(reason: str) -> Ending | None:
    # Some producers write the list as JSON text, or the name of the enumeration in front.
    words = _REASON.findall(reason)
    return _ENDINGS.get(words[-1].lower().replace("-", "_")) if words else None

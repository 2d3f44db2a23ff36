"""Names the OpenInference instrumentation that wrote a span.

Arrives: a scope name such as `openinference.instrumentation.langchain` or
`@arizeai/openinference-instrumentation-langchain`. Leaves: `langchain`. Which envelope is around a value depends on
the instrumentation, never on the attribute; without it a tool's own argument `kwargs` would be taken for an envelope.
"""

import re

from toolgauge.model.records import Scope

_SCOPE = re.compile(r"openinference[.-]instrumentation[.-]([a-z0-9_-]+)", re.IGNORECASE)

# These producers put OpenInference attributes on their own spans.
_OWN_SCOPES = {"gcp.vertex.agent": "google_adk", "pydantic-ai": "pydantic_ai"}


def instrumentation(scope: Scope) -> str:
    """Return the instrumentation's name in snake case, "" for any other producer."""
    found = _SCOPE.search(scope.name)
    if found is None:
        return _OWN_SCOPES.get(scope.name, "")
    return found[1].lower().replace("-", "_")

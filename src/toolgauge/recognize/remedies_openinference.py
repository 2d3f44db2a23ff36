"""What turns facts on in OpenInference's instrumentations: one set of variables in Python and JavaScript, a builder in Java."""

from toolgauge.recognize.producers import JAVA, JAVASCRIPT, PYTHON
from toolgauge.recognize.remedies import MODEL_SIDE_IDS, Fact, Remedy, Row, never

_DIALECTS = ("openinference", "uipath")
_INPUTS = "OPENINFERENCE_HIDE_INPUTS"
# Hides what models and tools gave back, all of it.
HIDES_OUTPUTS = "OPENINFERENCE_HIDE_OUTPUTS"
_INPUT_MESSAGES, _OUTPUT_MESSAGES = "OPENINFERENCE_HIDE_INPUT_MESSAGES", "OPENINFERENCE_HIDE_OUTPUT_MESSAGES"
_INPUT_TEXT, _TOOLS = "OPENINFERENCE_HIDE_INPUT_TEXT", "OPENINFERENCE_HIDE_LLM_TOOLS"
_AS_OPTIONS = {PYTHON: " (or the same in `TraceConfig`)", JAVASCRIPT: " (or the same in the option `traceConfig`)"}
_SESSIONS = {
    PYTHON: Remedy(
        how="run the agent inside `using_session(session_id=...)` of `openinference.instrumentation`",
        switches=("using_session",),
    ),
    JAVASCRIPT: Remedy(
        how="run the agent inside `context.with(setSession(context.active(), { sessionId }), ...)`, with `setSession` of "
        "`@arizeai/openinference-core`",
        switches=("setSession",),
    ),
    JAVA: Remedy(
        how="run the agent inside `ContextAttributes.builder().sessionId(...)` of `com.arize.instrumentation`",
        switches=("ContextAttributes.sessionId",),
    ),
}
_ANY_SESSION = Remedy(
    how="set `session.id` on a span of the trace, for which OpenInference's packages have a helper",
    switches=("session.id",),
)


def _hidden(switches: tuple[str, ...], language: str) -> Remedy:
    named = " and ".join(f"`{switch}`" for switch in switches)
    return Remedy(how=f"remove {named}{_AS_OPTIONS.get(language, '')}", switches=switches)


def _by_variables(language: str) -> dict[Fact, Remedy]:
    tools = _hidden((_TOOLS, _INPUTS), language)
    return {
        "calls": _hidden((HIDES_OUTPUTS, _OUTPUT_MESSAGES), language),
        "arguments": Remedy(
            how=f"remove `{_INPUTS}` and, for the model's side, `{HIDES_OUTPUTS}` and `{_OUTPUT_MESSAGES}`"
            f"{_AS_OPTIONS.get(language, '')}",
            switches=(_INPUTS, HIDES_OUTPUTS, _OUTPUT_MESSAGES),
        ),
        "results": _hidden((HIDES_OUTPUTS,), language),
        "user_text": _hidden((_INPUTS, _INPUT_MESSAGES, _INPUT_TEXT), language),
        "tool_definitions": Remedy(
            how=f"{tools.how}; where neither is set, this instrumentation does not record them: instrument the model client "
            "as well",
            switches=tools.switches,
        ),
        "call_ids": MODEL_SIDE_IDS,
        "conversation_id": _SESSIONS.get(language, _ANY_SESSION),
    }


def _built(*options: str) -> Remedy:
    named = " and ".join(f"`{option}(true)`" for option in options)
    return Remedy(
        how=f"remove {named} from the `TraceConfig` that the instrumentor is built with",
        switches=tuple(f"TraceConfig.{option}" for option in options),
    )


_SPAN_PROCESSOR_INPUTS = Remedy(
    how="set `recordInputs: true` (the default) in the telemetry options of the AI SDK's call: OpenInference's span processor "
    "has only what these record",
    switches=("recordInputs",),
)
_SPAN_PROCESSOR_OUTPUTS = Remedy(
    how="set `recordOutputs: true` (the default), and `recordInputs: true` for messages, in the telemetry options of the AI "
    "SDK's call: OpenInference's span processor has only what these record",
    switches=("recordOutputs", "recordInputs"),
)

OPENINFERENCE_ROWS: tuple[Row, ...] = (
    # Spans of the AI SDK, to which `@arizeai/openinference-vercel` adds OpenInference's attributes.
    Row(
        dialects=_DIALECTS,
        scopes=("ai", "gen_ai"),
        languages=(JAVASCRIPT,),
        remedies={
            "calls": _SPAN_PROCESSOR_OUTPUTS,
            "arguments": _SPAN_PROCESSOR_OUTPUTS,
            "results": _SPAN_PROCESSOR_OUTPUTS,
            "user_text": _SPAN_PROCESSOR_INPUTS,
            "tool_definitions": _SPAN_PROCESSOR_INPUTS,
            "conversation_id": Remedy(
                how="put `sessionId` into the `metadata` of the telemetry options, or run the call inside "
                "`context.with(setSession(context.active(), { sessionId }), ...)`, with `setSession` of "
                "`@arizeai/openinference-core`",
                switches=("sessionId", "setSession"),
            ),
        },
    ),
    Row(
        dialects=_DIALECTS,
        languages=(JAVA,),
        remedies={
            "calls": _built("hideOutputs", "hideOutputMessages"),
            "arguments": _built("hideInputs", "hideOutputs", "hideOutputMessages"),
            "results": _built("hideOutputs"),
            "user_text": _built("hideInputs", "hideInputMessages", "hideInputText"),
            "tool_definitions": never(
                "no option hides them: the model was offered no tools, or this instrumentation does not record them; then "
                "instrument the model client as well"
            ),
            "call_ids": MODEL_SIDE_IDS,
            "conversation_id": _SESSIONS[JAVA],
        },
    ),
    *(Row(dialects=_DIALECTS, languages=(one,), remedies=_by_variables(one)) for one in (PYTHON, JAVASCRIPT)),
    Row(dialects=_DIALECTS, remedies=_by_variables("")),
)

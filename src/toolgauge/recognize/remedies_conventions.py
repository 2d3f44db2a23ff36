"""What turns facts on in instrumentations that follow the GenAI conventions, which leave content out by default.

The conventions name no switch. Most instrumentations of OpenTelemetry share a variable; its values differ by language.
"""

from toolgauge.recognize.producers import DOTNET, JAVA, JAVASCRIPT, PYTHON
from toolgauge.recognize.remedies import CAPTURE, OPT_IN, SESSION, Fact, Remedy, Row, content, never

_DIALECTS = ("genai",)
_DEFINITIONS, _CALL_ID = "gen_ai.tool.definitions", "gen_ai.tool.call.id"
_CONVERSATION = Remedy(
    how=f"record {SESSION} on the agent's span, or on any span of the trace", switches=("gen_ai.conversation.id",)
)
_PYTHON = Remedy(
    how=f"set `{CAPTURE}=SPAN_AND_EVENT` and `{OPT_IN}=gen_ai_latest_experimental` (on releases that still follow "
    f"conventions up to 1.36: `{CAPTURE}=true`); what goes into events arrives only when log records are sent here too",
    switches=(CAPTURE, OPT_IN),
)
_JAVA = Remedy(
    how="set `otel.instrumentation.genai.capture-message-content=true` for OpenTelemetry's Java agent; without the agent, build "
    "the instrumentation with `setCaptureMessageContent(true)`; its content is in log records, which have to be sent here too",
    switches=("otel.instrumentation.genai.capture-message-content", "setCaptureMessageContent"),
)
_JAVASCRIPT = Remedy(
    how=f"set `{CAPTURE}=true`, or the option `captureMessageContent: true` of the instrumentation; its content is in log "
    "records, which have to be sent here too",
    switches=(CAPTURE, "captureMessageContent"),
)
_DOTNET = Remedy(
    how=f"set `EnableSensitiveData = true` where the client or agent gets `UseOpenTelemetry`, or `{CAPTURE}=true`",
    switches=("EnableSensitiveData", CAPTURE),
)
_SEMANTIC_KERNEL = Remedy(
    how="set `SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE=true`",
    switches=("SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE",),
)
_AGENT_FRAMEWORK = Remedy(
    how="set `ENABLE_SENSITIVE_DATA=true`, or call `enable_instrumentation(enable_sensitive_data=True)` of "
    "`agent_framework.observability`",
    switches=("ENABLE_SENSITIVE_DATA", "enable_instrumentation(enable_sensitive_data)"),
)
_LITELLM = Remedy(
    how="remove `litellm.turn_off_message_logging = True`, and `message_logging=False` of the callback",
    switches=("litellm.turn_off_message_logging", "message_logging"),
)
# Those who wrote their spans themselves have no switch.
_ANY = Remedy(
    how=f"switch on what its instrumentation calls message content (many read `{CAPTURE}`), or record "
    "`gen_ai.input.messages`, `gen_ai.output.messages`, `gen_ai.tool.call.arguments` and `gen_ai.tool.call.result`",
    switches=(CAPTURE,),
)


def _facts(recorded: Remedy, definitions: Remedy | None = None) -> dict[Fact, Remedy]:
    return {**content(recorded), "tool_definitions": definitions or recorded, "conversation_id": _CONVERSATION}


CONVENTION_ROWS: tuple[Row, ...] = (
    Row(dialects=_DIALECTS, scopes=("agent_framework",), remedies=_facts(_AGENT_FRAMEWORK)),
    Row(
        dialects=_DIALECTS,
        scopes=("litellm",),
        remedies={
            **_facts(_LITELLM),
            "call_ids": never("LiteLLM loses them of streamed answers"),
        },
    ),
    Row(
        dialects=_DIALECTS,
        scopes=("opentelemetry.util.genai",),
        before=(1, 3),
        remedies={
            "tool_definitions": Remedy(
                how=f"upgrade `opentelemetry-util-genai`: 1.3b0 records them with content (`{CAPTURE}`), 0.4b0 does not",
                switches=(CAPTURE,),
            )
        },
    ),
    Row(
        dialects=_DIALECTS,
        scopes=("opentelemetry",),
        languages=(PYTHON,),
        remedies={
            "tool_definitions": Remedy(
                how=f"newer releases record them with content (`{CAPTURE}`): seen with opentelemetry-util-genai 1.3b0, "
                "not with 0.4b0",
                switches=(CAPTURE,),
            )
        },
    ),
    Row(
        dialects=_DIALECTS,
        scopes=("io.opentelemetry",),
        languages=(JAVA,),
        remedies=_facts(_JAVA, never("it has no attribute for them; the tools are in no other record of it")),
    ),
    Row(dialects=_DIALECTS, scopes=("opentelemetry",), languages=(PYTHON,), remedies=_facts(_PYTHON)),
    Row(dialects=_DIALECTS, scopes=("@opentelemetry",), languages=(JAVASCRIPT,), remedies=_facts(_JAVASCRIPT)),
    Row(dialects=_DIALECTS, scopes=("semantic_kernel",), languages=(PYTHON,), remedies=_facts(_SEMANTIC_KERNEL)),
    # The application chooses the name of the scope.
    Row(dialects=_DIALECTS, languages=(DOTNET,), remedies=_facts(_DOTNET)),
    Row(
        dialects=_DIALECTS,
        remedies={
            **_facts(
                _ANY,
                Remedy(
                    how=f"record `{_DEFINITIONS}` on the model's or the agent's span (opt-in, like content: many read `{CAPTURE}`)",
                    switches=(_DEFINITIONS, CAPTURE),
                ),
            ),
            "call_ids": Remedy(how=f"record `{_CALL_ID}` on the tool span", switches=(_CALL_ID,)),
        },
    ),
)

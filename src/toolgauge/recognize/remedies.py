"""What each producer leaves out and what turns it on: data, looked up by dialect and scope.

The first row that fits the producer and knows the fact answers; the last rows fit everybody. A row that promised a
switch which does not exist would send people searching, so "never recorded" is an answer of its own.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Fact: TypeAlias = Literal[
    "calls", "arguments", "results", "failures", "call_ids", "tool_definitions", "conversation_id", "user_text"
]

# Their spans show a failed call as one that worked.
UNMARKED_FAILURES = frozenset(("spring_ai",))

_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_OPT_IN = "OTEL_SEMCONV_STABILITY_OPT_IN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What to do about a fact that is missing. `switches` are the exact names of variables and options.

    `never` means that the producer records it under no setting: `how` then says what else helps.
    """

    how: str
    switches: tuple[str, ...] = ()
    never: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Remedies for producers of one of these dialects and of a scope that begins so; empty fits all."""

    dialects: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    remedies: Mapping[Fact, Remedy]

    def fits(self, dialects: Collection[str], scope: str) -> bool:
        """Return whether the row speaks of this producer."""
        if self.dialects and not any(dialect in self.dialects for dialect in dialects):
            return False
        return not self.scopes or scope.startswith(self.scopes)


CONTENT_IS_ON = Remedy(
    how="its content is recorded, this is not: no switch is known that adds it; instrument the model client as well"
)
RECORDED_ELSEWHERE = Remedy(
    how="other traces of this producer have it: it records it only in some, often the first of a conversation, or not "
    "all of its processes are set up alike"
)
OFFERED_ELSEWHERE = Remedy(
    how=f"{RECORDED_ELSEWHERE.how}. Evaluators without a judge take the last offer of the conversation, or of the service within "
    "an hour, for these traces"
)


def remedy(fact: Fact, dialects: Collection[str], scope: str) -> Remedy:
    """Look up what helps a producer whose spans lack the fact."""
    for row in ROWS:
        if fact in row.remedies and row.fits(dialects, scope):
            return row.remedies[fact]
    raise KeyError(fact)  # the last row knows all facts


def _content(remedy: Remedy) -> dict[Fact, Remedy]:
    """Give one answer for everything that a single content switch governs."""
    return {"calls": remedy, "arguments": remedy, "results": remedy, "user_text": remedy}


def _never(how: str) -> Remedy:
    return Remedy(how=how, never=True)


_MCP = _never(
    "the MCP libraries record which tool was called and whether it failed, never this; instrument the agent that calls "
    "the tool: its tool span is the same call and has it"
)
_MCP_AROUND = _never("an MCP span knows only its own call; instrument the agent that calls the tool as well")
_AUTOGEN = _never(
    "AutoGen's own spans never have it; add `openinference-instrumentation-autogen-agentchat`, whose spans do"
)
_AUTOGEN_TOOLS = _never("AutoGen's own spans never have them; instrument the model client as well")
_AUTOGEN_SESSION = _never(
    "AutoGen's own spans never have it; add `openinference-instrumentation-autogen-agentchat` and run the agent inside "
    "`using_session(session_id=...)`"
)
_GENAI = Remedy(
    how=f"set `{_CAPTURE}=SPAN_AND_EVENT` and `{_OPT_IN}=gen_ai_latest_experimental` (on releases that still follow "
    f"conventions up to 1.36: `{_CAPTURE}=true`); what goes into events arrives only when log records are sent here too",
    switches=(_CAPTURE, _OPT_IN),
)
_PYDANTIC_AI = Remedy(
    how="set `include_content=True` (the default) in `InstrumentationSettings`, or in `logfire.instrument_pydantic_ai`",
    switches=("InstrumentationSettings(include_content)",),
)
_ADK = Remedy(
    how=f"set `{_CAPTURE}=SPAN_AND_EVENT`, and do not set `ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=false`, which alone "
    "decides with `ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN=1`",
    switches=(_CAPTURE, "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS"),
)
_OPENAI_AGENTS = Remedy(
    how=f"set `{_CAPTURE}=SPAN_AND_EVENT`, and leave `trace_include_sensitive_data` of `RunConfig` "
    "(`OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA`) on",
    switches=(_CAPTURE, "OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA", "RunConfig(trace_include_sensitive_data)"),
)
_VERCEL_OUTPUTS = Remedy(
    how="set `recordOutputs: true` (the default) in the `telemetry` options (AI SDK before 7: `experimental_telemetry`); "
    "arguments and results are both outputs to it, of the model and of the tool; messages need `recordInputs: true`",
    switches=("recordOutputs", "recordInputs"),
)
_VERCEL_INPUTS = Remedy(
    how="set `recordInputs: true` (the default) in the `telemetry` options (AI SDK before 7: `experimental_telemetry`)",
    switches=("recordInputs",),
)
_TRACELOOP = Remedy(
    how="remove `TRACELOOP_TRACE_CONTENT=false` (content is recorded by default)", switches=("TRACELOOP_TRACE_CONTENT",)
)
_OPENLIT = Remedy(
    how="set `capture_message_content=True` (the default) in `openlit.init`, or `OPENLIT_CAPTURE_MESSAGE_CONTENT=true`",
    switches=("openlit.init(capture_message_content)", "OPENLIT_CAPTURE_MESSAGE_CONTENT"),
)
_HAYSTACK = Remedy(
    how="set `HAYSTACK_CONTENT_TRACING_ENABLED=true` before Haystack is imported, or "
    "`haystack.tracing.tracer.is_content_tracing_enabled = True`",
    switches=("HAYSTACK_CONTENT_TRACING_ENABLED", "tracing.tracer.is_content_tracing_enabled"),
)
_LANGSMITH_INPUTS = Remedy(how="remove `LANGSMITH_HIDE_INPUTS=true`", switches=("LANGSMITH_HIDE_INPUTS",))
_LANGSMITH_OUTPUTS = Remedy(how="remove `LANGSMITH_HIDE_OUTPUTS=true`", switches=("LANGSMITH_HIDE_OUTPUTS",))
_LANGFUSE = Remedy(
    how="look at the `mask` function given to `Langfuse(...)`, and at `capture_input` and `capture_output` of `@observe`",
    switches=("Langfuse(mask)", "observe(capture_input)", "observe(capture_output)"),
)
_SPRING_AI = Remedy(
    how="set `spring.ai.tools.observations.include-content=true`",
    switches=("spring.ai.tools.observations.include-content",),
)
_UIPATH = Remedy(
    how="remove `hide_input` and `hide_output` from `@traced`, and look at its `input_processor` and `output_processor`",
    switches=("traced(hide_input)", "traced(hide_output)"),
)
_MODEL_SIDE_IDS = _never(
    "the tool spans of this producer have none; ids come with the model's own spans, where these are recorded "
    "with their content"
)
# A span with `session.id` alone looks like anybody's.
_SESSION = "`gen_ai.conversation.id`"

ROWS: tuple[Row, ...] = (
    Row(
        scopes=("mcp-python-sdk", "fastmcp"),
        remedies={
            "calls": _MCP,
            "arguments": _MCP,
            "results": _MCP,
            "call_ids": _MCP,
            "tool_definitions": _MCP_AROUND,
            "conversation_id": _MCP_AROUND,
            "user_text": _MCP_AROUND,
        },
    ),
    Row(
        scopes=("autogen",),
        remedies={
            **_content(_AUTOGEN),
            "tool_definitions": _AUTOGEN_TOOLS,
            "conversation_id": _AUTOGEN_SESSION,
        },
    ),
    Row(
        scopes=("pydantic-ai", "pydantic_ai"),
        remedies={
            **_content(_PYDANTIC_AI),
            "tool_definitions": Remedy(
                how="upgrade: current releases always record them (seen with 2.68); older ones unless "
                "`include_model_request_parameters=False` is set in `InstrumentationSettings`",
                switches=("InstrumentationSettings(include_model_request_parameters)",),
            ),
            "conversation_id": Remedy(
                how="pass `conversation_id` to the agent's run, or set `gen_ai.conversation.id` on a span around it"
            ),
        },
    ),
    Row(
        dialects=("google_adk",),
        remedies={**_content(_ADK), "call_ids": _never("ADK replaces the id where the tool raised an exception")},
    ),
    Row(
        dialects=("openai_agents",),
        remedies={
            **_content(_OPENAI_AGENTS),
            "call_ids": Remedy(
                how=f"ids are only in the model's output: {_OPENAI_AGENTS.how}", switches=_OPENAI_AGENTS.switches
            ),
            "tool_definitions": _never(
                "this instrumentation has no attribute for them; instrument the model client as well"
            ),
            "conversation_id": _never(
                "the group id is not exported; set `gen_ai.conversation.id` on a span around the run"
            ),
        },
    ),
    Row(
        dialects=("spring_ai",),
        remedies={
            "calls": _never(
                "its model spans never have what was asked for; calls show as tool spans, when a tool is called"
            ),
            "arguments": _SPRING_AI,
            "results": _SPRING_AI,
            "failures": _never(
                "a tool that raised looks like one that returned the message of its exception; name the texts that are failures "
                "with `failures: {match: [...]}` in the criterion"
            ),
            "user_text": _never("its spans never have it; instrument the model client as well"),
            "call_ids": _never("releases up to 1.1 write none"),
            "conversation_id": Remedy(
                how="give the chat client's advisors a `chat_memory_conversation_id` (`ChatMemory.CONVERSATION_ID`)",
                switches=("ChatMemory.CONVERSATION_ID",),
            ),
        },
    ),
    Row(
        dialects=("vercel",),
        remedies={
            "conversation_id": Remedy(
                how="put `sessionId` into the runtime context (AI SDK before 7: `experimental_telemetry.metadata`)",
                switches=("sessionId",),
            )
        },
    ),
    # `gen_ai` is the tracer of `@ai-sdk/otel`, `ai` that of the older class.
    *(
        Row(
            dialects=dialects,
            scopes=scopes,
            remedies={
                "calls": _VERCEL_OUTPUTS,
                "arguments": _VERCEL_OUTPUTS,
                "results": _VERCEL_OUTPUTS,
                "tool_definitions": _VERCEL_INPUTS,
                "user_text": _VERCEL_INPUTS,
                "conversation_id": Remedy(how=f"set {_SESSION} on a span around the call"),
            },
        )
        for dialects, scopes in ((("vercel",), ()), (("genai",), ("gen_ai", "ai")))
    ),
    Row(
        dialects=("strands",),
        remedies={
            "tool_definitions": Remedy(
                how=f"add `gen_ai_tool_definitions` to `{_OPT_IN}`", switches=(_OPT_IN, "gen_ai_tool_definitions")
            ),
            "conversation_id": Remedy(
                how="give the agent `trace_attributes={'session.id': ...}`", switches=("trace_attributes",)
            ),
        },
    ),
    Row(
        dialects=("traceloop",),
        remedies={
            **_content(_TRACELOOP),
            "tool_definitions": _TRACELOOP,
            "call_ids": _MODEL_SIDE_IDS,
            "conversation_id": Remedy(
                how="call `Traceloop.set_association_properties({'session_id': ...})`",
                switches=("Traceloop.set_association_properties",),
            ),
        },
    ),
    Row(
        scopes=("uipath.",),
        remedies={
            **_content(_UIPATH),
            "call_ids": Remedy(how="set `tool.id` on the traced tools", switches=("tool.id",)),
            "tool_definitions": _never("its spans are of functions; instrument the model calls as well"),
            "user_text": _never("its spans are of functions; instrument the model calls as well"),
        },
    ),
    Row(
        dialects=("openinference", "uipath"),
        remedies={
            "calls": Remedy(
                how="remove `OPENINFERENCE_HIDE_OUTPUTS` and `OPENINFERENCE_HIDE_OUTPUT_MESSAGES` (or the same in "
                "`TraceConfig`)",
                switches=("OPENINFERENCE_HIDE_OUTPUTS", "OPENINFERENCE_HIDE_OUTPUT_MESSAGES"),
            ),
            "arguments": Remedy(
                how="remove `OPENINFERENCE_HIDE_INPUTS` and, for the model's side, `OPENINFERENCE_HIDE_OUTPUTS` and "
                "`OPENINFERENCE_HIDE_OUTPUT_MESSAGES` (or the same in `TraceConfig`)",
                switches=(
                    "OPENINFERENCE_HIDE_INPUTS",
                    "OPENINFERENCE_HIDE_OUTPUTS",
                    "OPENINFERENCE_HIDE_OUTPUT_MESSAGES",
                ),
            ),
            "results": Remedy(
                how="remove `OPENINFERENCE_HIDE_OUTPUTS` (or the same in `TraceConfig`)",
                switches=("OPENINFERENCE_HIDE_OUTPUTS",),
            ),
            "user_text": Remedy(
                how="remove `OPENINFERENCE_HIDE_INPUTS`, `OPENINFERENCE_HIDE_INPUT_MESSAGES` and "
                "`OPENINFERENCE_HIDE_INPUT_TEXT` (or the same in `TraceConfig`)",
                switches=(
                    "OPENINFERENCE_HIDE_INPUTS",
                    "OPENINFERENCE_HIDE_INPUT_MESSAGES",
                    "OPENINFERENCE_HIDE_INPUT_TEXT",
                ),
            ),
            "tool_definitions": Remedy(
                how="remove `OPENINFERENCE_HIDE_LLM_TOOLS` and `OPENINFERENCE_HIDE_INPUTS`; where neither is set, this "
                "instrumentation does not record them: instrument the model client as well",
                switches=("OPENINFERENCE_HIDE_LLM_TOOLS", "OPENINFERENCE_HIDE_INPUTS"),
            ),
            "call_ids": _MODEL_SIDE_IDS,
            "conversation_id": Remedy(
                how="run the agent inside `using_session(session_id=...)` of `openinference.instrumentation`",
                switches=("using_session",),
            ),
        },
    ),
    Row(
        dialects=("openlit",),
        remedies={
            **_content(_OPENLIT),
            "tool_definitions": _OPENLIT,
            "conversation_id": Remedy(how="give the graph's run a `thread_id`", switches=("thread_id",)),
        },
    ),
    Row(
        dialects=("langfuse",),
        remedies={
            **_content(_LANGFUSE),
            "tool_definitions": _LANGFUSE,
            "conversation_id": Remedy(
                how="run the agent inside `propagate_attributes(session_id=...)`", switches=("propagate_attributes",)
            ),
        },
    ),
    Row(
        dialects=("langsmith",),
        remedies={
            "calls": _LANGSMITH_OUTPUTS,
            "arguments": Remedy(
                how=f"{_LANGSMITH_INPUTS.how} and `LANGSMITH_HIDE_OUTPUTS=true`",
                switches=(*_LANGSMITH_INPUTS.switches, *_LANGSMITH_OUTPUTS.switches),
            ),
            "results": _LANGSMITH_OUTPUTS,
            "user_text": _LANGSMITH_INPUTS,
            "tool_definitions": _LANGSMITH_INPUTS,
            "conversation_id": Remedy(
                how="put `session_id` or `thread_id` into the run's metadata", switches=("session_id", "thread_id")
            ),
        },
    ),
    Row(
        dialects=("mlflow",),
        remedies={
            "conversation_id": Remedy(
                how="MLflow keeps its session to itself; give the graph's run a `thread_id`", switches=("thread_id",)
            )
        },
    ),
    Row(
        dialects=("haystack",),
        remedies={
            **_content(_HAYSTACK),
            "tool_definitions": _HAYSTACK,
            "call_ids": _MODEL_SIDE_IDS,
            "conversation_id": _never(f"Haystack's tracer has none; set {_SESSION} on a span around the pipeline"),
        },
    ),
    Row(
        dialects=("claude_code",),
        remedies={
            "calls": Remedy(
                how="its log events name no trace: turn on spans with `CLAUDE_CODE_ENHANCED_TELEMETRY_BETA=1` and "
                "`OTEL_TRACES_EXPORTER=otlp`",
                switches=("CLAUDE_CODE_ENHANCED_TELEMETRY_BETA", "OTEL_TRACES_EXPORTER"),
            ),
            "arguments": Remedy(
                how="set `OTEL_LOG_TOOL_DETAILS=1`, and `OTEL_LOG_TOOL_CONTENT=1` for whole inputs",
                switches=("OTEL_LOG_TOOL_DETAILS", "OTEL_LOG_TOOL_CONTENT"),
            ),
            "results": Remedy(how="set `OTEL_LOG_TOOL_CONTENT=1`", switches=("OTEL_LOG_TOOL_CONTENT",)),
            "user_text": Remedy(how="set `OTEL_LOG_USER_PROMPTS=1`", switches=("OTEL_LOG_USER_PROMPTS",)),
            "tool_definitions": _never("Claude Code does not record them"),
        },
    ),
    Row(
        dialects=("agentcore",),
        remedies=_content(
            Remedy(how="AgentCore splits content off into log records: send the logs signal here as well as the spans")
        ),
    ),
    Row(
        dialects=("genai",),
        scopes=("opentelemetry.",),
        remedies={
            "tool_definitions": Remedy(
                how=f"newer releases record them with content (`{_CAPTURE}`): seen with opentelemetry-util-genai 1.3b0, "
                "not with 0.4b0",
                switches=(_CAPTURE,),
            )
        },
    ),
    Row(
        dialects=("genai",),
        remedies={
            **_content(_GENAI),
            "call_ids": Remedy(how="record `gen_ai.tool.call.id` on the tool span", switches=("gen_ai.tool.call.id",)),
            "tool_definitions": Remedy(
                how="record `gen_ai.tool.definitions` on the model's or the agent's span (opt-in, like content: "
                f"`{_CAPTURE}`)",
                switches=("gen_ai.tool.definitions", _CAPTURE),
            ),
            "conversation_id": Remedy(
                how="record `gen_ai.conversation.id` on the agent's span, or on any span of the trace",
                switches=("gen_ai.conversation.id",),
            ),
        },
    ),
    Row(
        remedies={
            **_content(Remedy(how="no switch is known for this producer: look for one that hides inputs or outputs")),
            "failures": Remedy(
                how="name the texts of results that are failures with `failures: {match: [...]}` in the criterion"
            ),
            "call_ids": Remedy(how="no switch is known for this producer"),
            "tool_definitions": Remedy(how="no switch is known for this producer"),
            "conversation_id": Remedy(
                how=f"set {_SESSION} on any span of the trace", switches=("gen_ai.conversation.id",)
            ),
        },
    ),
)

"""What each producer leaves out and what turns it on: data, looked up by scope, language, version and dialect.

The first row that fits the producer and knows the fact answers; the last rows fit everybody.
"""

from collections.abc import Collection

from toolgauge.recognize.producers import GO, JAVASCRIPT, PYTHON, Producer
from toolgauge.recognize.remedies import CAPTURE, MODEL_SIDE_IDS, OPT_IN, SESSION, Fact, Remedy, Row, content, never
from toolgauge.recognize.remedies_conventions import CONVENTION_ROWS
from toolgauge.recognize.remedies_openinference import OPENINFERENCE_ROWS


def remedy(fact: Fact, producer: Producer, dialects: Collection[str]) -> Remedy:
    """Look up what helps a producer whose spans lack the fact."""
    for row in ROWS:
        if fact in row.remedies and row.fits(producer, dialects):
            return row.remedies[fact]
    raise KeyError(fact)  # the last row knows all facts


_MCP = never(
    "the MCP libraries record which tool was called and whether it failed, never this; instrument the agent that calls "
    "the tool: its tool span is the same call and has it"
)
_MCP_AROUND = never("an MCP span knows only its own call; instrument the agent that calls the tool as well")
_AUTOGEN = never(
    "AutoGen's own spans never have it; add `openinference-instrumentation-autogen-agentchat`, whose spans do"
)
_AUTOGEN_TOOLS = never("AutoGen's own spans never have them; instrument the model client as well")
_AUTOGEN_SESSION = never(
    "AutoGen's own spans never have it; add `openinference-instrumentation-autogen-agentchat` and run the agent inside "
    "`using_session(session_id=...)`"
)
_PYDANTIC_AI = Remedy(
    how="set `include_content=True` (the default) in `InstrumentationSettings`, or in `logfire.instrument_pydantic_ai`",
    switches=("InstrumentationSettings(include_content)",),
)
_ADK_SPANS = "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS"
_ADK_PYTHON = Remedy(
    how=f"set `{CAPTURE}=SPAN_AND_EVENT`, and do not set `{_ADK_SPANS}=false`, which alone "
    "decides with `ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN=1`",
    switches=(CAPTURE, _ADK_SPANS),
)
_ADK_GO = Remedy(how=f"set `{CAPTURE}=true`", switches=(CAPTURE,))
_ADK = Remedy(how=f"remove `{_ADK_SPANS}=false` (content is recorded by default)", switches=(_ADK_SPANS,))
_OPENAI_AGENTS = Remedy(
    how=f"set `{CAPTURE}=SPAN_AND_EVENT`, and leave `trace_include_sensitive_data` of `RunConfig` "
    "(`OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA`) on",
    switches=(CAPTURE, "OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA", "RunConfig(trace_include_sensitive_data)"),
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


def _all(recorded: Remedy) -> dict[Fact, Remedy]:
    """Give one answer for content and tool definitions."""
    return {**content(recorded), "tool_definitions": recorded}


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
            **content(_AUTOGEN),
            "tool_definitions": _AUTOGEN_TOOLS,
            "conversation_id": _AUTOGEN_SESSION,
        },
    ),
    Row(
        scopes=("pydantic-ai", "pydantic_ai"),
        before=(2, 68),
        remedies={
            "tool_definitions": Remedy(
                how="upgrade `pydantic-ai`: 2.68 always records them; with an older release remove "
                "`include_model_request_parameters=False` from `InstrumentationSettings`",
                switches=("InstrumentationSettings(include_model_request_parameters)",),
            ),
        },
    ),
    Row(
        scopes=("pydantic-ai", "pydantic_ai"),
        remedies={
            **content(_PYDANTIC_AI),
            "tool_definitions": never("releases such as 2.68 record them whenever the agent has tools"),
            "conversation_id": Remedy(
                how="pass `conversation_id` to the agent's run, or set `gen_ai.conversation.id` on a span around it"
            ),
        },
    ),
    *(
        Row(
            dialects=("google_adk",),
            languages=languages,
            remedies={**content(recorded), "call_ids": never("ADK replaces the id where the tool raised an exception")},
        )
        for languages, recorded in (((PYTHON,), _ADK_PYTHON), ((GO,), _ADK_GO), ((), _ADK))
    ),
    Row(
        dialects=("openai_agents",),
        remedies={
            **content(_OPENAI_AGENTS),
            "call_ids": Remedy(
                how=f"ids are only in the model's output: {_OPENAI_AGENTS.how}", switches=_OPENAI_AGENTS.switches
            ),
            "tool_definitions": never(
                "this instrumentation has no attribute for them; instrument the model client as well"
            ),
            "conversation_id": never(
                "the group id is not exported; set `gen_ai.conversation.id` on a span around the run"
            ),
        },
    ),
    Row(
        dialects=("spring_ai",),
        remedies={
            "calls": never(
                "its model spans never have what was asked for; calls show as tool spans, when a tool is called"
            ),
            "arguments": _SPRING_AI,
            "results": _SPRING_AI,
            "failures": never(
                "a tool that raised looks like one that returned the message of its exception; name the texts that are failures "
                "with `failures: {match: [...]}` in the criterion"
            ),
            "user_text": never("its spans never have it; instrument the model client as well"),
            "call_ids": never("Spring AI 1 writes none; Spring AI 2 has `spring.ai.tool.call.id` on its tool spans"),
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
                "conversation_id": Remedy(how=f"set {SESSION} on a span around the call"),
            },
        )
        for dialects, scopes in ((("vercel",), ()), (("genai",), ("gen_ai", "ai")))
    ),
    Row(
        dialects=("strands",),
        remedies={
            "tool_definitions": Remedy(
                how=f"add `gen_ai_tool_definitions` to `{OPT_IN}`", switches=(OPT_IN, "gen_ai_tool_definitions")
            ),
        },
    ),
    *(
        Row(
            dialects=("strands",),
            languages=(language,),
            remedies={
                "conversation_id": Remedy(
                    how=f"give the agent `{option}`", switches=(option.split("=")[0].split(":")[0],)
                )
            },
        )
        for language, option in (
            (PYTHON, "trace_attributes={'session.id': ...}"),
            (JAVASCRIPT, "traceAttributes: { 'session.id': ... }"),
        )
    ),
    *(
        Row(dialects=("traceloop",), languages=(language,), remedies={"conversation_id": session})
        for language, session in (
            (
                PYTHON,
                Remedy(
                    how="call `Traceloop.set_association_properties({'session_id': ...})`",
                    switches=("Traceloop.set_association_properties",),
                ),
            ),
            (
                JAVASCRIPT,
                Remedy(
                    how="run the agent inside `traceloop.withAssociationProperties({ session_id: ... }, ...)`",
                    switches=("traceloop.withAssociationProperties",),
                ),
            ),
        )
    ),
    Row(
        dialects=("traceloop",),
        languages=(JAVASCRIPT,),
        remedies=_all(
            Remedy(
                how="remove `TRACELOOP_TRACE_CONTENT=false`, and `traceContent: false` from the options of `traceloop.initialize` "
                "or of the instrumentation (content is recorded by default)",
                switches=("TRACELOOP_TRACE_CONTENT", "traceContent"),
            )
        ),
    ),
    Row(dialects=("traceloop",), remedies={**_all(_TRACELOOP), "call_ids": MODEL_SIDE_IDS}),
    Row(
        scopes=("uipath",),
        remedies={
            **content(_UIPATH),
            "call_ids": Remedy(how="set `tool.id` on the traced tools", switches=("tool.id",)),
            "tool_definitions": never("its spans are of functions; instrument the model calls as well"),
            "user_text": never("its spans are of functions; instrument the model calls as well"),
        },
    ),
    *OPENINFERENCE_ROWS,
    Row(
        dialects=("openlit",),
        languages=(JAVASCRIPT,),
        remedies=_all(
            Remedy(
                how=f"set `captureMessageContent: true` (the default) in `Openlit.init`, or `{CAPTURE}=true`",
                switches=("captureMessageContent", CAPTURE),
            )
        ),
    ),
    Row(
        dialects=("openlit",),
        languages=(PYTHON, ""),
        remedies={
            **_all(_OPENLIT),
            "conversation_id": Remedy(how="give the graph's run a `thread_id`", switches=("thread_id",)),
        },
    ),
    Row(
        dialects=("langfuse",),
        languages=(JAVASCRIPT,),
        remedies={
            **_all(
                Remedy(
                    how="look at the `mask` function given to `new LangfuseSpanProcessor({ mask })`",
                    switches=("LangfuseSpanProcessor({ mask })",),
                )
            ),
            "conversation_id": Remedy(
                how="run the agent inside `propagateAttributes({ sessionId: ... }, ...)`",
                switches=("propagateAttributes",),
            ),
        },
    ),
    Row(
        dialects=("langfuse",),
        languages=(PYTHON,),
        remedies={
            **_all(_LANGFUSE),
            "conversation_id": Remedy(
                how="run the agent inside `propagate_attributes(session_id=...)`", switches=("propagate_attributes",)
            ),
        },
    ),
    Row(dialects=("langfuse",), remedies=_all(Remedy(how="look at the `mask` function given to Langfuse"))),
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
        dialects=("mastra",),
        remedies={
            "conversation_id": Remedy(
                how="give the run `tracingOptions: { metadata: { threadId: ..., sessionId: ... } }`",
                switches=("tracingOptions",),
            )
        },
    ),
    Row(
        dialects=("voltagent",),
        remedies={
            "conversation_id": Remedy(
                how="give `generateText` or `streamText` of the agent a `conversationId`", switches=("conversationId",)
            )
        },
    ),
    Row(
        dialects=("codex",),
        remedies={
            "calls": Remedy(
                how="its log events name no trace until it has spans as well: set `trace_exporter` in the section `[otel]` of its "
                "`config.toml`, to this place too",
                switches=("otel.trace_exporter",),
            ),
            "user_text": Remedy(
                how="set `log_user_prompt = true` in the section `[otel]` of its `config.toml`",
                switches=("otel.log_user_prompt",),
            ),
            "tool_definitions": never("Codex does not record them"),
        },
    ),
    Row(
        dialects=("gemini_cli",),
        remedies={
            **content(
                Remedy(
                    how="set `GEMINI_TELEMETRY_TRACES_ENABLED=true` (`telemetry.traces` of its settings), without which its spans "
                    "have no content, and leave `GEMINI_TELEMETRY_LOG_PROMPTS` on",
                    switches=("GEMINI_TELEMETRY_TRACES_ENABLED", "GEMINI_TELEMETRY_LOG_PROMPTS"),
                )
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
            **_all(_HAYSTACK),
            "call_ids": MODEL_SIDE_IDS,
            "conversation_id": never(f"Haystack's tracer has none; set {SESSION} on a span around the pipeline"),
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
            "tool_definitions": never("Claude Code does not record them"),
        },
    ),
    Row(
        dialects=("agentcore",),
        remedies=content(
            Remedy(how="AgentCore splits content off into log records: send the logs signal here as well as the spans")
        ),
    ),
    *CONVENTION_ROWS,
    Row(
        remedies={
            **content(Remedy(how="no switch is known for this producer: look for one that hides inputs or outputs")),
            "failures": Remedy(
                how="name the texts of results that are failures with `failures: {match: [...]}` in the criterion"
            ),
            "call_ids": Remedy(how="no switch is known for this producer"),
            "tool_definitions": Remedy(how="no switch is known for this producer"),
            "conversation_id": Remedy(
                how=f"set {SESSION} on any span of the trace", switches=("gen_ai.conversation.id",)
            ),
        },
    ),
)

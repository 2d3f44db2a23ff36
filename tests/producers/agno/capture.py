"""Agno under OpenInference or (`KIND=traceloop-agno`, `KIND=openlit-agno`, `KIND=genai-agno`) Traceloop, OpenLIT or OpenTelemetry, over chat completions."""

import os

from client import SCENARIOS, STUB, capture, tools_of, traced
from opentelemetry import trace

KIND = os.environ.get("KIND", "openinference-agno")
if KIND == "openlit-agno":
    import openlit

    PACKAGE = "openlit"
    openlit.init(
        disable_metrics=True, disabled_instrumentors=["urllib"], otlp_endpoint=STUB, application_name="agno-app"
    )
else:
    provider = traced("agno-app")
if KIND == "traceloop-agno":
    from opentelemetry.instrumentation.agno import AgnoInstrumentor

    PACKAGE = "opentelemetry-instrumentation-agno"
    AgnoInstrumentor().instrument(tracer_provider=provider)
elif KIND == "genai-agno":
    os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"
    from opentelemetry.instrumentation.genai.agno import AgnoInstrumentor

    PACKAGE = "opentelemetry-instrumentation-genai-agno"
    AgnoInstrumentor().instrument(tracer_provider=provider)
elif KIND == "openinference-agno":
    from openinference.instrumentation.agno import AgnoInstrumentor

    PACKAGE = "openinference-instrumentation-agno"
    AgnoInstrumentor().instrument(tracer_provider=provider)

from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.models.openai import OpenAIChat


def application(scenario):
    return Agent(
        model=OpenAIChat(id="stub-model", api_key="none", base_url=f"{STUB}/v1"),
        name="assistant",
        instructions="Help the user.",
        tools=tools_of(scenario),
        db=InMemoryDb(),
        add_history_to_context=True,
        session_id=scenario["conversation_id"],
        telemetry=False,
    )


def play(scenario, text, number, state):
    agent = state["agent"] if number else state.setdefault("agent", application(scenario))
    if scenario["stream"]:
        # OpenLIT's spans of a stream have the application's span alone around them.
        with trace.get_tracer("agno-app").start_as_current_span("request"):
            for _ in agent.run(text, stream=True):
                pass
    else:
        agent.run(text)


capture(
    KIND,
    play,
    packages=("agno", PACKAGE, "opentelemetry-sdk"),
    convention={"traceloop-agno": "Traceloop", "openlit-agno": "OpenLIT", "genai-agno": "GenAI"}.get(
        KIND, "OpenInference"
    ),
    # Traceloop's spans show no call that did not run.
    scenarios=tuple(name for name in SCENARIOS if KIND != "traceloop-agno" or name != "bad_json"),
)

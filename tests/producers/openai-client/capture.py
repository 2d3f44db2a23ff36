"""OpenAI's client in a loop of an agent's own, under the SDK that KIND names: `langfuse-openai`, `langtrace-openai`, `logfire-openai` or `mlflow-openai`."""

import os

from chat_loop import converse, streamed
from client import SCENARIOS, STUB, TOOLS, capture, traced
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import BatchSpanProcessor

KIND = os.environ["KIND"]
EXPORTER = OTLPSpanExporter(endpoint=f"{STUB}/v1/traces")
if KIND == "langtrace-openai":
    from langtrace_python_sdk import langtrace, with_langtrace_root_span

    os.environ["LANGTRACE_ERROR_REPORTING"] = "False"
    traced("client-app")
    langtrace.init(custom_remote_exporter=EXPORTER, batch=True, api_key="none", disable_logging=True)
    around = with_langtrace_root_span
    PACKAGE = "langtrace-python-sdk"
elif KIND == "langfuse-openai":
    os.environ |= {"LANGFUSE_PUBLIC_KEY": "none", "LANGFUSE_SECRET_KEY": "none", "LANGFUSE_HOST": STUB}
    import langfuse
    import langfuse.openai

    PACKAGE = "langfuse"

    def around(name):
        return langfuse.observe(name=name, as_type="tool" if name in TOOLS else "agent")

elif KIND == "logfire-openai":
    import logfire

    logfire.configure(
        send_to_logfire=False,
        console=False,
        service_name="client-app",
        additional_span_processors=[BatchSpanProcessor(EXPORTER)],
    )
    logfire.instrument_openai()
    PACKAGE = "logfire"

    def around(name):
        return logfire.instrument(name, record_return=True)

else:
    import mlflow

    os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = f"{STUB}/v1/traces"
    os.environ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] = "http/protobuf"
    os.environ["OTEL_SERVICE_NAME"] = "client-app"
    mlflow.openai.autolog()
    PACKAGE = "mlflow"

    def around(name):
        return mlflow.trace(name=name, span_type="TOOL" if name in TOOLS else "AGENT")


import openai

client = openai.OpenAI(api_key="none", base_url=f"{STUB}/v1", max_retries=0)
tools = {name: tool if KIND == "langtrace-openai" else around(name)(tool) for name, tool in TOOLS.items()}


def play(scenario, text, number, state):
    messages = state.setdefault("messages", [{"role": "system", "content": "Help the user."}])

    @around("assistant")
    def assistant(question):
        messages.append({"role": "user", "content": question})
        ask = client.chat.completions.create
        return converse(streamed(ask) if scenario["stream"] else ask, scenario, messages, tools)

    if scenario["conversation_id"] and KIND == "langfuse-openai":
        with langfuse.propagate_attributes(session_id=scenario["conversation_id"]):
            assistant(text)
    else:
        assistant(text)


def flush():
    if KIND == "mlflow-openai":
        mlflow.tracing.provider.provider.get().force_flush()
    elif KIND == "langfuse-openai":
        langfuse.get_client().flush()


capture(
    KIND,
    play,
    packages=("openai", PACKAGE, "opentelemetry-sdk"),
    convention=PACKAGE,
    flush=flush,
    # Langtrace records the arguments of streamed calls without their names.
    scenarios=tuple(name for name in SCENARIOS if KIND != "langtrace-openai" or not name.startswith("stream")),
)

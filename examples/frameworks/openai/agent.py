"""An agent made of the OpenAI client and a loop, traced by OpenInference.

    toolgauge serve --set "criteria_files=[criteria.yaml]"
    pip install openai openinference-instrumentation-openai opentelemetry-exporter-otlp
    OPENAI_API_KEY=... OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 python agent.py

The client's instrumentation sees what the model asks for. Which calls were executed, and how they ended, only this
program knows: it says so with a span for the run and one for each tool.
"""

import json
import os

from openai import OpenAI
from openinference.instrumentation import TracerProvider
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider(resource=Resource.create({"service.name": "shop-assistant"}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
OpenAIInstrumentor().instrument(tracer_provider=provider)
tracer = provider.get_tracer("shop-assistant")


def find_order(order_id: str) -> str:
    """Find an order."""
    return json.dumps({"order_id": order_id, "status": "shipped"})


TOOLS = {"find_order": find_order}
OFFERED = [
    {
        "type": "function",
        "function": {
            "name": "find_order",
            "description": "Find an order.",
            "parameters": {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]},
        },
    }
]


def use(name: str, arguments: str) -> str:
    """Execute one call; what fails is told to the model, and to the trace."""
    with tracer.start_as_current_span(name, openinference_span_kind="tool", set_status_on_exception=True) as span:
        span.set_tool(name=name, parameters={})
        span.set_input(arguments, mime_type="application/json")
        result = TOOLS[name](**json.loads(arguments))
        span.set_output(result)
        return result


def answer(question: str) -> str:
    """Ask the model, and use tools until it has an answer."""
    client = OpenAI()
    messages: list = [{"role": "user", "content": question}]
    with tracer.start_as_current_span("shop_agent", openinference_span_kind="agent") as run:
        run.set_input(question)
        while True:
            reply = client.chat.completions.create(
                model=os.environ.get("MODEL", "gpt-5"), messages=messages, tools=OFFERED
            )
            message = reply.choices[0].message
            if not message.tool_calls:
                run.set_output(message.content or "")
                return message.content or ""
            messages.append(message)
            for call in message.tool_calls:
                try:
                    result = use(call.function.name, call.function.arguments)
                except (KeyError, TypeError, ValueError) as error:
                    result = f"Error: {error!r}"
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


print(answer("Where is order A-17?"))
provider.shutdown()

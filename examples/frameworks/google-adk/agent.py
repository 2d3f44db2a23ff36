"""A Google ADK agent, traced by itself.

    toolgauge serve --set "criteria_files=[criteria.yaml]"
    pip install google-adk opentelemetry-exporter-otlp
    export OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY
    GOOGLE_API_KEY=... OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 python agent.py

ADK writes to the application's global tracer provider. Without that variable its spans hold no arguments and no
results; criteria that need them then say `not_evaluated` and why.
"""

import asyncio
import os

from google.adk.agents import Agent
from google.adk.runners import InMemoryRunner
from google.genai import types
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider(resource=Resource.create({"service.name": "google-adk-demo"}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)


def get_user(user_id: int) -> dict:
    """Find a user."""
    return {"user_id": user_id, "name": "Zoë Ågren", "city": "København"}


def get_weather(city: str, unit: str = "celsius") -> dict:
    """Tell the weather of a city."""
    return {"city": city, "temp": 11.5, "unit": unit}


def send_email(to: str, subject: str, body: str) -> dict:
    """Send an e-mail."""
    return {"status": "sent", "to": to, "subject": subject, "length": len(body)}


agent = Agent(
    name="assistant",
    model=os.environ.get("MODEL", "gemini-2.5-flash"),
    instruction="Help with users, weather and mail.",
    tools=[get_user, get_weather, send_email],
)


async def main() -> None:
    """Ask one question."""
    runner = InMemoryRunner(agent=agent, app_name="demo")
    session = await runner.session_service.create_session(app_name="demo", user_id="u")
    question = types.Content(role="user", parts=[types.Part(text="Mail user 7 the weather of their city.")])
    async for event in runner.run_async(user_id="u", session_id=session.id, new_message=question):
        if event.is_final_response() and event.content and event.content.parts:
            print(event.content.parts[0].text)


asyncio.run(main())
provider.shutdown()

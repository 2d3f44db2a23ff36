"""toolgauge scores the tool calls of AI agents inside an OpenTelemetry pipeline."""

"""Names of Traceloop's attributes that more than one reader needs."""

ENTITY_NAME = "traceloop.entity.name"
ENTITY_INPUT = "traceloop.entity.input"
ENTITY_OUTPUT = "traceloop.entity.output"
ASSOCIATION = "traceloop.association.properties."
# LangChain's own name for the agent, which the instrumentation copies from a run's metadata.
LANGCHAIN_AGENT = ASSOCIATION + "lc_agent_name"

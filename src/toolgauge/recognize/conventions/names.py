"""Names of the GenAI and MCP conventions: attributes, operations and events."""

OPERATION = "gen_ai.operation.name"
CONVERSATION = "gen_ai.conversation.id"
SESSION = "session.id"
AGENT = "gen_ai.agent.name"
TOOL_NAME = "gen_ai.tool.name"
CALL_ID = "gen_ai.tool.call.id"
ARGUMENTS = "gen_ai.tool.call.arguments"
RESULT = "gen_ai.tool.call.result"
DEFINITIONS = "gen_ai.tool.definitions"
SYSTEM = "gen_ai.system_instructions"
INPUT = "gen_ai.input.messages"
OUTPUT = "gen_ai.output.messages"
MCP_METHOD = "mcp.method.name"
ERROR_TYPE = "error.type"
FINISH_REASONS = "gen_ai.response.finish_reasons"
# How providers say that a model stopped in order to have tools called.
TOOL_FINISHES = ("tool_call", "tool_calls", "tool_use", "function_call")

# A tuple: what is looked for in it may be a list or an object, which no set can be asked for.
MODEL_OPERATIONS = ("chat", "generate_content", "text_completion", "chat.completions", "completion", "responses")
EXECUTE = "execute_tool"
INVOKE = "invoke_agent"
TOOLS_CALL = "tools/call"

DETAILS = "gen_ai.client.inference.operation.details"
CHOICE = "gen_ai.choice"
TOOL_MESSAGE = "gen_ai.tool.message"
SYSTEM_MESSAGE = "gen_ai.system.message"
USER_MESSAGE = "gen_ai.user.message"
CONTENT_COMPLETION = "gen_ai.content.completion"
CONTENT_PROMPT = "gen_ai.content.prompt"
# `gen_ai.assistant.message` is history alone and `gen_ai.evaluation.result` is a score: neither is read.
MESSAGE_EVENTS = frozenset((CHOICE, TOOL_MESSAGE, SYSTEM_MESSAGE, USER_MESSAGE))
EVENT_BODY = "gen_ai.event.content"

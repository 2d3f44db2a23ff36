// Microsoft's Agent 365 observability SDK around an agent's loop of an application's own: a scope an agent run, a model request and a call.

import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import {
  A365_MESSAGE_SCHEMA_VERSION, ExecuteToolScope, InferenceOperationType, InferenceScope, InvokeAgentScope,
} from "@microsoft/agents-a365-observability";
import { capture, runTool, STUB, versionsOf } from "../stub/client.mjs";

const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": "agent365-app" }),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter({ url: `${STUB}/v1/traces` }))],
});
provider.register();
const agent = { agentId: "agent-1", agentName: "assistant", tenantId: "tenant-1" };

/** A chat message in the parts that Agent 365 records. */
function recorded({ role, content, tool_calls, tool_call_id }) {
  if (role === "tool") return { role, parts: [{ type: "tool_call_response", id: tool_call_id, response: content }] };
  const calls = (tool_calls ?? []).map(({ id, function: made }) => ({
    type: "tool_call", id, name: made.name, arguments: JSON.parse(made.arguments),
  }));
  return { role, parts: [...(content ? [{ type: "text", content }] : []), ...calls] };
}

async function ask(request, messages, tools) {
  const details = { operationName: InferenceOperationType.CHAT, model: "stub-model", providerName: "openai" };
  const scope = InferenceScope.start(request, details, agent);
  try {
    return await scope.withActiveSpanAsync(async () => {
      scope.recordInputMessages({ version: A365_MESSAGE_SCHEMA_VERSION, messages: messages.map(recorded) });
      const body = JSON.stringify({ model: "stub-model", messages, tools });
      const answer = await (await fetch(`${STUB}/v1/chat/completions`, { method: "POST", body })).json();
      const { message, finish_reason } = answer.choices[0];
      scope.recordFinishReasons([finish_reason]);
      scope.recordOutputMessages({ version: A365_MESSAGE_SCHEMA_VERSION, messages: [{ ...recorded(message), finish_reason }] });
      return message;
    });
  } finally {
    scope.dispose();
  }
}

async function called(request, { id, function: { name, arguments: given } }, scenario) {
  const tool = scenario.tools.find((one) => one.name === name);
  if (!tool) return `Error: no tool called ${name}`;
  const details = { toolName: name, arguments: given, toolCallId: id, description: tool.description, toolType: "function" };
  const scope = ExecuteToolScope.start(request, details, agent);
  try {
    const result = await scope.withActiveSpanAsync(() => runTool(name, JSON.parse(given)));
    const text = typeof result === "string" ? result : JSON.stringify(result);
    scope.recordResponse(text);
    return text;
  } catch (error) {
    scope.recordError(error);
    return `Error: ${error.name}: ${error.message}`;
  } finally {
    scope.dispose();
  }
}

await capture(
  {
    producer: "agent365-js",
    versions: versionsOf("@microsoft/agents-a365-observability"),
    convention: "Agent 365 scopes",
    scenarios: [
      "one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn", "unknown_tool", "no_tool",
    ],
    flush: () => provider.forceFlush(),
  },
  async (scenario, text, number, state) => {
    const messages = (state.messages ??= []);
    messages.push({ role: "user", content: text });
    const tools = scenario.tools.map((tool) => ({ type: "function", function: tool }));
    const request = { content: text, conversationId: scenario.conversation_id ?? undefined, channel: { name: "web" } };
    const scope = InvokeAgentScope.start(request, {}, agent);
    await scope.withActiveSpanAsync(async () => {
      for (;;) {
        const message = await ask(request, messages, tools);
        messages.push(message);
        if (!message.tool_calls?.length) return scope.recordResponse(message.content);
        for (const call of message.tool_calls)
          messages.push({ role: "tool", tool_call_id: call.id, content: await called(request, call, scenario) });
      }
    });
    scope.dispose();
  },
);

// TanStack AI with its OpenTelemetry middleware.

import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { chat, maxIterations, toolDefinition } from "@tanstack/ai";
import { otelMiddleware } from "@tanstack/ai/middlewares/otel";
import { createOpenaiChatCompletions } from "@tanstack/ai-openai";
import { z } from "zod";
import { capture, runTool, STUB, versionsOf, zodOf } from "../stub/client.mjs";

const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": "tanstack-app" }),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter({ url: `${STUB}/v1/traces` }))],
});
provider.register();
const tracer = provider.getTracer("tanstack-app");

await capture(
  {
    producer: "tanstack-ai",
    versions: versionsOf("@tanstack/ai", "@tanstack/ai-openai"),
    convention: "TanStack AI's otelMiddleware",
    scenarios: [
      "one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn", "unknown_tool", "bad_args",
      "no_tool",
    ],
    flush: () => provider.forceFlush(),
  },
  async (scenario, text, number, state) => {
    state.messages ??= [];
    state.messages.push({ role: "user", content: text });
    const tools = scenario.tools.map((tool) =>
      toolDefinition({ name: tool.name, description: tool.description, inputSchema: zodOf(tool.parameters, z) }).server((input) =>
        runTool(tool.name, input),
      ),
    );
    let answer = "";
    const stream = chat({
      adapter: createOpenaiChatCompletions("gpt-4o", "none", { baseURL: `${STUB}/v1` }),
      messages: state.messages,
      tools,
      agentLoopStrategy: maxIterations(6),
      middleware: [otelMiddleware({ tracer, captureContent: true })],
      conversationId: scenario.conversation_id ?? undefined,
      threadId: scenario.conversation_id ?? undefined,
    });
    for await (const chunk of stream) if (chunk.type === "TEXT_MESSAGE_CONTENT") answer += chunk.delta;
    state.messages.push({ role: "assistant", content: answer });
  },
);

// The AI SDK, whose spans @arizeai/openinference-vercel gives OpenInference's attributes beside the SDK's own.

import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { OpenInferenceBatchSpanProcessor } from "@arizeai/openinference-vercel";
import { OpenTelemetry } from "@ai-sdk/otel";
import { generateText, registerTelemetry, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { capture, runTool, STUB, versionsOf, zodOf } from "../stub/client.mjs";

const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": "ai-sdk-app", "openinference.project.name": "demo" }),
  spanProcessors: [
    new OpenInferenceBatchSpanProcessor({ exporter: new OTLPTraceExporter({ url: `${STUB}/v1/traces` }) }),
  ],
});
provider.register();
registerTelemetry(new OpenTelemetry({ usage: true, runtimeContext: true, toolChoice: true, schema: true }));
const model = createOpenAICompatible({ name: "stub", apiKey: "none", baseURL: `${STUB}/v1` }).chatModel("stub-model");

function toolsOf(described, only = () => true) {
  return Object.fromEntries(
    described.filter(only).map((one) => [
      one.name,
      tool({ description: one.description, inputSchema: zodOf(one.parameters, z), execute: (input) => runTool(one.name, input) }),
    ]),
  );
}

await capture(
  {
    producer: "openinference-vercel-3",
    versions: versionsOf("ai", "@arizeai/openinference-vercel"),
    convention: "AI SDK (ai.*) and OpenInference on the same spans",
    scenarios: [
      "one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn", "subagent",
      "unknown_tool", "bad_args", "bad_json", "no_tool", "stream", "stream_parallel", "content_off",
    ],
    flush: () => provider.forceFlush(),
  },
  async (scenario, text, number, state) => {
    const telemetry = (functionId) => ({
      functionId,
      recordInputs: scenario.content,
      recordOutputs: scenario.content,
      includeRuntimeContext: { sessionId: true },
    });
    const options = (functionId, tools, messages) => ({
      model, tools, messages, system: "You are helpful.", stopWhen: stepCountIs(8), maxRetries: 0,
      telemetry: telemetry(functionId),
      runtimeContext: scenario.conversation_id ? { sessionId: scenario.conversation_id } : undefined,
    });
    let tools = toolsOf(scenario.tools);
    if (scenario.name === "subagent") {
      const inner = toolsOf(scenario.tools, (one) => one.name === "search_flights");
      tools = {
        ...toolsOf(scenario.tools, (one) => one.name !== "search_flights"),
        flight_agent: tool({
          description: "Finds flights",
          inputSchema: z.object({ input: z.string() }),
          execute: async ({ input }) =>
            (await generateText(options("flight_agent", inner, [{ role: "user", content: input }]))).text,
        }),
      };
    }
    const messages = [...(state.messages ?? []), { role: "user", content: text }];
    if (scenario.stream) {
      await streamText(options("assistant", tools, messages)).consumeStream();
      return;
    }
    const answer = await generateText(options("assistant", tools, messages));
    state.messages = [...messages, ...answer.response.messages];
  },
);

// VoltAgent with its own observability, exported by an OpenTelemetry span processor.

import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { BatchSpanProcessor } from "@opentelemetry/sdk-trace-node";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Agent, createTool, VoltAgentObservability } from "@voltagent/core";
import { z } from "zod";
import { capture, runTool, STUB, versionsOf, zodOf } from "../stub/client.mjs";

const processor = new BatchSpanProcessor(new OTLPTraceExporter({ url: `${STUB}/v1/traces` }));
const observability = new VoltAgentObservability({ serviceName: "voltagent-app", spanProcessors: [processor] });
const model = createOpenAICompatible({ name: "stub", apiKey: "none", baseURL: `${STUB}/v1` }).chatModel("stub-model");

function application(scenario) {
  const tools = scenario.tools.map((one) =>
    createTool({ name: one.name, description: one.description, parameters: zodOf(one.parameters, z), execute: (input) => runTool(one.name, input) }),
  );
  const named = (name) => tools.filter((one) => one.name === name);
  const base = { model, observability, instructions: "You are helpful.", maxSteps: 8 };
  if (scenario.name === "subagent") {
    const flights = new Agent({ ...base, name: "flight_agent", purpose: "Finds flights", tools: named("search_flights") });
    return new Agent({ ...base, name: "coordinator", tools: [flights.toTool({ name: "flight_agent", description: "Finds flights" }), ...named("get_weather")] });
  }
  return new Agent({ ...base, name: "assistant", tools });
}

await capture(
  {
    producer: "voltagent",
    versions: versionsOf("@voltagent/core", "ai"),
    convention: "VoltAgent's own spans",
    names: { subagent: "flight_agent", subagent_argument: "prompt" },
    scenarios: [
      "one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn", "subagent", "unknown_tool", "bad_args",
      "bad_json", "no_tool", "stream", "stream_parallel",
    ],
    flush: () => processor.forceFlush(),
  },
  async (scenario, text, number, state) => {
    if (!number) state.agent = application(scenario);
    const options = { maxSteps: 8, maxRetries: 0 };
    if (scenario.conversation_id) Object.assign(options, { conversationId: scenario.conversation_id, userId: "zoe" });
    if (scenario.stream) {
      const answer = await state.agent.streamText(text, options);
      for await (const _ of answer.textStream);
      return;
    }
    await state.agent.generateText(text, options);
  },
);

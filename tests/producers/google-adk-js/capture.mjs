// Google's Agent Development Kit in JavaScript with its own spans, by Gemini's protocol.

import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { capture, runTool, STUB, versionsOf, zodOf } from "../stub/client.mjs";

process.env.GOOGLE_GEMINI_BASE_URL = STUB;
const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": "adk-app" }),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter({ url: `${STUB}/v1/traces` }))],
});
provider.register();
const { AgentTool, FunctionTool, Gemini, InMemoryRunner, LlmAgent, StreamingMode } = await import("@google/adk");
const { setDefaultBaseUrls } = await import("@google/genai");
setDefaultBaseUrls({ geminiUrl: STUB });
const { z } = await import("zod");

const model = () => new Gemini({ model: "gemini-stub", apiKey: "none" });

function application(scenario) {
  const tools = scenario.tools.map(
    (one) => new FunctionTool({ name: one.name, description: one.description, parameters: zodOf(one.parameters, z), execute: (input) => runTool(one.name, input) }),
  );
  const named = (name) => tools.filter((one) => one.name === name);
  const base = { model: model(), instruction: "You are helpful." };
  if (scenario.name === "subagent") {
    const flights = new LlmAgent({ ...base, name: "flight_agent", description: "Finds flights", tools: named("search_flights") });
    return new LlmAgent({ ...base, name: "coordinator", tools: [new AgentTool({ agent: flights }), ...named("get_weather")] });
  }
  if (scenario.name === "handoff") {
    const refund = new LlmAgent({ ...base, name: "refund_agent", description: "Refunds orders", tools: named("refund_order") });
    return new LlmAgent({ ...base, name: "triage_agent", subAgents: [refund] });
  }
  return new LlmAgent({ ...base, name: "assistant", tools });
}

await capture(
  {
    producer: "google-adk-js",
    versions: versionsOf("@google/adk"),
    convention: "ADK's own spans",
    names: { subagent_argument: "request", handoff: "transfer_to_agent", handoff_arguments: { agentName: "refund_agent" } },
    scenarios: [
      "one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn", "subagent", "handoff", "unknown_tool",
      "bad_args", "no_tool", "stream",
    ],
    flush: () => provider.forceFlush(),
  },
  async (scenario, text, number, state) => {
    if (!number) {
      state.runner = new InMemoryRunner({ agent: application(scenario), appName: "support" });
      state.session = await state.runner.sessionService.createSession({ appName: "support", userId: "zoe", sessionId: scenario.conversation_id ?? undefined });
    }
    const asked = { userId: "zoe", sessionId: state.session.id, newMessage: { role: "user", parts: [{ text }] } };
    if (scenario.stream) asked.runConfig = { streamingMode: StreamingMode.SSE };
    for await (const event of state.runner.runAsync(asked)) if (event.errorCode) throw new Error(event.errorMessage);
  },
);

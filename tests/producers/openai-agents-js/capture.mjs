// OpenAI's Agents SDK in JavaScript under OpenInference's instrumentation, by the Responses API.

import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { OpenAIAgentsInstrumentation } from "@arizeai/openinference-instrumentation-openai-agents";
import * as agents from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";
import { capture, runTool, STUB, versionsOf, zodOf } from "../stub/client.mjs";

const chat = process.env.API === "chat";
const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": "agents-app" }),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter({ url: `${STUB}/v1/traces` }))],
});
provider.register();
const instrumentation = new OpenAIAgentsInstrumentation({ tracerProvider: provider });
instrumentation.manuallyInstrument(agents);
const { Agent, run, tool } = agents;
agents.setDefaultOpenAIClient(new OpenAI({ apiKey: "none", baseURL: `${STUB}/v1`, maxRetries: 0 }));
agents.setOpenAIAPI(chat ? "chat_completions" : "responses");

function toolsOf(described) {
  return described.map((one) =>
    tool({ name: one.name, description: one.description, parameters: one.parameters, strict: false, execute: (input) => runTool(one.name, input) }),
  );
}

function application(scenario) {
  const base = { model: "stub-model", instructions: "You are helpful." };
  const tools = toolsOf(scenario.tools);
  const named = (name) => tools.filter((one) => one.name === name);
  if (scenario.name === "handoff") {
    const refund = new Agent({ ...base, name: "refund_agent", tools: named("refund_order") });
    return Agent.create({ ...base, name: "triage_agent", handoffs: [refund] });
  }
  if (scenario.name === "subagent") {
    const flights = new Agent({ ...base, name: "flight_agent", tools: named("search_flights") });
    const inner = flights.asTool({ toolName: "flight_agent", toolDescription: "Finds flights" });
    return new Agent({ ...base, name: "coordinator", tools: [inner, ...named("get_weather")] });
  }
  return new Agent({ ...base, name: "assistant", tools });
}

await capture(
  {
    producer: chat ? "openai-agents-js-chat" : "openai-agents-js",
    versions: versionsOf("@openai/agents", "@arizeai/openinference-instrumentation-openai-agents", "openai"),
    convention: "OpenInference",
    scenarios: [
      "one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn", "subagent", "handoff",
      "unknown_tool", "bad_args", "bad_json", "no_tool", "stream", "stream_parallel",
    ],
    flush: async () => {
      await agents.getGlobalTraceProvider?.()?.forceFlush?.();
      await provider.forceFlush();
    },
  },
  async (scenario, text, number, state) => {
    if (!number) state.agent = application(scenario);
    const input = [...(state.history ?? []), { role: "user", content: text }];
    const traced = { groupId: scenario.conversation_id ?? undefined };
    const answer = await agents.withTrace("assistant", async () => {
      const result = await run(state.agent, input, { stream: scenario.stream, maxTurns: 8 });
      if (scenario.stream) await result.completed;
      return result;
    }, traced);
    state.history = answer.history;
  },
);

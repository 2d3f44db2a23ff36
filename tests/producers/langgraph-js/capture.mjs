// LangChain.js agents on LangGraph.js: under OpenInference's instrumentation, or by LangSmith's own OpenTelemetry export.

import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { capture, runTool, STUB, versionsOf } from "../stub/client.mjs";

const bySmith = process.env.BY === "langsmith";
let provider;
let smith;
if (bySmith) {
  Object.assign(process.env, {
    LANGSMITH_TRACING: "true", LANGSMITH_OTEL_ENABLED: "true", LANGSMITH_API_KEY: "none", LANGSMITH_ENDPOINT: STUB,
    OTEL_EXPORTER_OTLP_ENDPOINT: STUB, OTEL_SERVICE_NAME: "langgraph-app",
  });
  const { initializeOTEL } = await import("langsmith/experimental/otel/setup");
  const made = initializeOTEL({ exporterConfig: { url: `${STUB}/v1/traces`, headers: {} } });
  provider = made.DEFAULT_LANGSMITH_TRACER_PROVIDER;
  const { RunTree } = await import("langsmith/run_trees");
  smith = RunTree.getSharedClient();
} else {
  provider = new NodeTracerProvider({
    resource: resourceFromAttributes({ "service.name": "langgraph-app" }),
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter({ url: `${STUB}/v1/traces` }))],
  });
  provider.register();
  const { LangChainInstrumentation } = await import("@arizeai/openinference-instrumentation-langchain");
  const callbacks = await import("@langchain/core/callbacks/manager");
  new LangChainInstrumentation({ tracerProvider: provider }).manuallyInstrument(callbacks);
}
const { createAgent, tool } = await import("langchain");
const { ChatOpenAI } = await import("@langchain/openai");

const model = () =>
  new ChatOpenAI({ model: "stub-model", apiKey: "none", maxRetries: 0, configuration: { baseURL: `${STUB}/v1` } });

function toolsOf(described) {
  return described.map((one) =>
    tool(async (input) => {
      const result = await runTool(one.name, input);
      return typeof result === "string" ? result : JSON.stringify(result);
    }, { name: one.name, description: one.description, schema: one.parameters }),
  );
}

function application(scenario) {
  const tools = toolsOf(scenario.tools);
  const named = (name) => tools.filter((one) => one.name === name);
  if (scenario.name === "subagent") {
    const flights = createAgent({ name: "flight_agent", model: model(), tools: named("search_flights") });
    const inner = tool(
      async ({ input }) => {
        const answer = await flights.invoke({ messages: [{ role: "user", content: input }] });
        return answer.messages.at(-1).content;
      },
      { name: "flight_agent", description: "Finds flights", schema: { type: "object", properties: { input: { type: "string" } }, required: ["input"] } },
    );
    return createAgent({ name: "coordinator", model: model(), tools: [inner, ...named("get_weather")] });
  }
  return createAgent({ name: "assistant", model: model(), tools, systemPrompt: "You are helpful." });
}

await capture(
  {
    producer: bySmith ? "langsmith-otel-js" : "openinference-langchain-js",
    versions: versionsOf("langchain", "@langchain/langgraph", ...(bySmith ? ["langsmith"] : ["@arizeai/openinference-instrumentation-langchain"])),
    convention: bySmith ? "LangSmith's OpenTelemetry export" : "OpenInference",
    scenarios: [
      "one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn", "subagent",
      "unknown_tool", "bad_args", "bad_json", "no_tool", "stream", "stream_parallel",
    ],
    flush: async () => {
      const { awaitAllCallbacks } = await import("@langchain/core/callbacks/promises");
      await awaitAllCallbacks();
      await smith?.awaitPendingTraceBatches();
      await provider.forceFlush();
    },
  },
  async (scenario, text, number, state) => {
    if (!number) state.agent = application(scenario);
    const messages = [...(state.messages ?? []), { role: "user", content: text }];
    const config = scenario.conversation_id
      ? { configurable: { thread_id: scenario.conversation_id }, metadata: { session_id: scenario.conversation_id } }
      : {};
    if (scenario.stream) {
      for await (const _ of await state.agent.stream({ messages }, { ...config, streamMode: "messages" }));
      return;
    }
    state.messages = (await state.agent.invoke({ messages }, config)).messages;
  },
);

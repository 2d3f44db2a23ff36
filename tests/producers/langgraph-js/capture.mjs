// LangChain.js agents on LangGraph.js under OpenInference's instrumentation. LangSmith's own export makes no spans of such
// runs in JavaScript: only of functions wrapped in `traceable`.

import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { capture, runTool, STUB, versionsOf } from "../stub/client.mjs";

const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": "langgraph-app" }),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter({ url: `${STUB}/v1/traces` }))],
});
provider.register();
const { LangChainInstrumentation } = await import("@arizeai/openinference-instrumentation-langchain");
const callbacks = await import("@langchain/core/callbacks/manager");
new LangChainInstrumentation({ tracerProvider: provider }).manuallyInstrument(callbacks);
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
    producer: "openinference-langchain-js",
    versions: versionsOf("langchain", "@langchain/langgraph", "@arizeai/openinference-instrumentation-langchain"),
    convention: "OpenInference",
    scenarios: [
      "one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn", "subagent",
      "unknown_tool", "bad_args", "bad_json", "no_tool", "stream", "stream_parallel",
    ],
    flush: async () => {
      const { awaitAllCallbacks } = await import("@langchain/core/callbacks/promises");
      await awaitAllCallbacks();
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

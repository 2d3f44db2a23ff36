// LangChain.js agents on LangGraph.js under Traceloop's SDK.

import * as traceloop from "@traceloop/node-server-sdk";
import { capture, runTool, STUB, versionsOf } from "../stub/client.mjs";

process.env.OTEL_NODE_RESOURCE_DETECTORS = "none";
traceloop.initialize({
  appName: "langgraph-app",
  baseUrl: STUB,
  apiKey: "none",
  silenceInitializationMessage: true,
  traceloopSyncEnabled: false,
});
const { createAgent, tool } = await import("langchain");
const { ChatOpenAI } = await import("@langchain/openai");

function toolsOf(described) {
  return described.map((one) =>
    tool(async (input) => {
      const result = await runTool(one.name, input);
      return typeof result === "string" ? result : JSON.stringify(result);
    }, { name: one.name, description: one.description, schema: one.parameters }),
  );
}

function application(scenario) {
  const model = new ChatOpenAI({ model: "stub-model", apiKey: "none", maxRetries: 0, configuration: { baseURL: `${STUB}/v1` } });
  return createAgent({ name: "assistant", model, tools: toolsOf(scenario.tools), systemPrompt: "You are helpful." });
}

await capture(
  {
    producer: "traceloop-langgraph-js",
    versions: versionsOf("langchain", "@langchain/langgraph", "@traceloop/node-server-sdk"),
    convention: "Traceloop",
    scenarios: [
      "one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn",
      "unknown_tool", "bad_args", "bad_json", "no_tool", "stream", "stream_parallel",
    ],
    flush: async () => {
      const { awaitAllCallbacks } = await import("@langchain/core/callbacks/promises");
      await awaitAllCallbacks();
      await traceloop.forceFlush();
    },
  },
  async (scenario, text, number, state) => {
    if (!number) state.agent = application(scenario);
    const messages = [...(state.messages ?? []), { role: "user", content: text }];
    const config = scenario.conversation_id ? { configurable: { thread_id: scenario.conversation_id } } : {};
    const run = async () => {
      if (!scenario.stream) {
        state.messages = (await state.agent.invoke({ messages }, config)).messages;
        return;
      }
      for await (const _ of await state.agent.stream({ messages }, { ...config, streamMode: "messages" }));
    };
    await (scenario.conversation_id
      ? traceloop.withAssociationProperties({ session_id: scenario.conversation_id }, run)
      : run());
  },
);

// Langfuse's JavaScript SDK around OpenAI's client and the functions of an application's own loop.

import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { observeOpenAI } from "@langfuse/openai";
import { LangfuseSpanProcessor } from "@langfuse/otel";
import { propagateAttributes, startActiveObservation } from "@langfuse/tracing";
import OpenAI from "openai";
import { converse } from "../stub/chat_loop.mjs";
import { capture, runTool, STUB, versionsOf } from "../stub/client.mjs";

const processor = new LangfuseSpanProcessor({
  publicKey: "none", secretKey: "none", baseUrl: STUB, exporter: new OTLPTraceExporter({ url: `${STUB}/v1/traces` }),
});
const provider = new NodeTracerProvider({ spanProcessors: [processor] });
provider.register();
const client = observeOpenAI(new OpenAI({ apiKey: "none", baseURL: `${STUB}/v1`, maxRetries: 0 }));

const run = (name, given) =>
  startActiveObservation(
    name,
    async (tool) => {
      tool.update({ input: given });
      try {
        const output = await runTool(name, given);
        tool.update({ output });
        return output;
      } catch (error) {
        tool.update({ level: "ERROR", statusMessage: `${error.name}: ${error.message}` });
        throw error;
      }
    },
    { asType: "tool" },
  );

await capture(
  {
    producer: "langfuse-js",
    versions: versionsOf("@langfuse/openai", "@langfuse/tracing", "openai"),
    convention: "Langfuse",
    scenarios: [
      "one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn", "unknown_tool", "bad_args",
      "no_tool",
    ],
    flush: () => provider.forceFlush(),
  },
  async (scenario, text, number, state) => {
    const messages = (state.messages ??= [{ role: "system", content: "Help the user." }]);
    messages.push({ role: "user", content: text });
    const answer = () =>
      startActiveObservation(
        "assistant",
        async (agent) => {
          agent.update({ input: text });
          agent.update({ output: await converse(client, scenario, messages, run) });
        },
        { asType: "agent" },
      );
    await (scenario.conversation_id ? propagateAttributes({ sessionId: scenario.conversation_id }, answer) : answer());
  },
);

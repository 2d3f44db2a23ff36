// The clients of Anthropic and (`KIND=traceloop-bedrock-js`) Bedrock under Traceloop's SDK, in the loop of an application's own.

import * as traceloop from "@traceloop/node-server-sdk";
import * as anthropic from "@anthropic-ai/sdk";
import * as bedrock from "@aws-sdk/client-bedrock-runtime";
import { NodeHttpHandler } from "@smithy/node-http-handler";
import { trace } from "@opentelemetry/api";
import { captureClient } from "../stub/clients.mjs";
import { STUB, versionsOf } from "../stub/client.mjs";

const KIND = process.env.KIND ?? "traceloop-anthropic-js";
process.env.OTEL_NODE_RESOURCE_DETECTORS = "none";
traceloop.initialize({
  appName: "client-app",
  baseUrl: STUB,
  apiKey: "none",
  silenceInitializationMessage: true,
  traceloopSyncEnabled: false,
  instrumentModules: KIND.includes("bedrock") ? { bedrock } : { anthropic },
});
const provider = { getTracer: (name) => trace.getTracer(name), forceFlush: () => traceloop.forceFlush() };
const claude = new anthropic.default({ apiKey: "none", baseURL: STUB, maxRetries: 0 });
const runtime = new bedrock.BedrockRuntimeClient({
  region: "us-east-1",
  endpoint: STUB,
  credentials: { accessKeyId: "none", secretAccessKey: "none" },
  requestHandler: new NodeHttpHandler(),
  maxAttempts: 1,
});

const toolsOf = (scenario) =>
  scenario.tools.map(({ name, description, parameters }) => ({ name, description, input_schema: parameters }));

async function create(scenario, messages) {
  const asked = { max_tokens: 200, system: "You are helpful.", messages, tools: toolsOf(scenario) };
  if (KIND === "traceloop-anthropic-js") {
    const options = { model: "claude-stub", ...asked };
    return scenario.stream ? streamed(await claude.messages.create({ ...options, stream: true })) : (await claude.messages.create(options)).content;
  }
  const body = JSON.stringify({ anthropic_version: "bedrock-2023-05-31", ...asked });
  const answer = await runtime.send(new bedrock.InvokeModelCommand({ modelId: "anthropic.claude-stub", body, contentType: "application/json" }));
  return JSON.parse(new TextDecoder().decode(answer.body)).content;
}

async function streamed(events) {
  const blocks = [];
  for await (const event of events) {
    if (event.type === "content_block_start") blocks.push({ ...event.content_block, json: "" });
    else if (event.type === "content_block_delta") {
      if (event.delta.type === "text_delta") blocks.at(-1).text += event.delta.text;
      else blocks.at(-1).json += event.delta.partial_json;
    }
  }
  return blocks.map(({ json, ...block }) => (block.type === "tool_use" ? { ...block, input: JSON.parse(json || "{}") } : block));
}

await captureClient(
  {
    producer: KIND,
    versions: versionsOf("@traceloop/node-server-sdk", KIND.includes("bedrock") ? "@aws-sdk/client-bedrock-runtime" : "@anthropic-ai/sdk"),
    convention: "Traceloop",
    scenarios: [
      "one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn", "unknown_tool", "bad_args",
      "no_tool", ...(KIND.includes("bedrock") ? [] : ["stream", "stream_parallel"]),
    ],
  },
  provider,
  {
    user: (text) => ({ role: "user", content: text }),
    turn: async (scenario, messages) => {
      const content = await create(scenario, messages);
      const calls = content.filter((one) => one.type === "tool_use");
      return { message: { role: "assistant", content }, calls: calls.map(({ id, name, input }) => ({ id, name, args: input })) };
    },
    results: (answered) => [
      {
        role: "user",
        content: answered.map(({ id, failed, text }) => ({
          type: "tool_result", tool_use_id: id, content: text, ...(failed ? { is_error: true } : {}),
        })),
      },
    ],
  },
);

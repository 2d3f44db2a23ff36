// Bedrock's client in JavaScript (Converse) under OpenInference's instrumentation, in the loop of an application's own.

import * as bedrock from "@aws-sdk/client-bedrock-runtime";
import { BedrockInstrumentation } from "@arizeai/openinference-instrumentation-bedrock";
import { NodeHttpHandler } from "@smithy/node-http-handler";
import { captureClient, tracing } from "../stub/clients.mjs";
import { STUB, versionsOf } from "../stub/client.mjs";

const provider = tracing("bedrock-app");
new BedrockInstrumentation({ tracerProvider: provider }).manuallyInstrument(bedrock);
const client = new bedrock.BedrockRuntimeClient({
  region: "us-east-1",
  endpoint: STUB,
  credentials: { accessKeyId: "none", secretAccessKey: "none" },
  requestHandler: new NodeHttpHandler(),
  maxAttempts: 1,
});

await captureClient(
  {
    producer: "openinference-bedrock-js",
    versions: versionsOf("@aws-sdk/client-bedrock-runtime", "@arizeai/openinference-instrumentation-bedrock"),
    convention: "OpenInference",
    scenarios: [
      "one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn", "unknown_tool", "bad_args",
      "no_tool", "stream", "stream_parallel",
    ],
  },
  provider,
  {
    user: (text) => ({ role: "user", content: [{ text }] }),
    turn: async (scenario, messages) => {
      const asked = {
        modelId: "claude-stub",
        system: [{ text: "You are helpful." }],
        messages,
        toolConfig: {
          tools: scenario.tools.map(({ name, description, parameters }) => ({
            toolSpec: { name, description, inputSchema: { json: parameters } },
          })),
        },
      };
      const message = scenario.stream
        ? await streamed(asked)
        : (await client.send(new bedrock.ConverseCommand(asked))).output.message;
      const calls = message.content.filter((one) => one.toolUse).map(({ toolUse }) => toolUse);
      return { message, calls: calls.map(({ toolUseId, name, input }) => ({ id: toolUseId, name, args: input })) };
    },
    results: (answered) => [
      {
        role: "user",
        content: answered.map(({ id, failed, text }) => ({
          toolResult: { toolUseId: id, content: [{ text }], status: failed ? "error" : "success" },
        })),
      },
    ],
  },
);

async function streamed(asked) {
  const blocks = [];
  const answer = await client.send(new bedrock.ConverseStreamCommand(asked));
  for await (const event of answer.stream) {
    if (event.contentBlockStart) blocks[event.contentBlockStart.contentBlockIndex] = { ...event.contentBlockStart.start, json: "" };
    else if (event.contentBlockDelta) {
      const { contentBlockIndex: at, delta } = event.contentBlockDelta;
      const block = (blocks[at] ??= { text: "" });
      if (delta.text) block.text += delta.text;
      else block.json += delta.toolUse.input;
    }
  }
  const content = blocks.map(({ json, ...block }) =>
    block.toolUse ? { toolUse: { ...block.toolUse, input: JSON.parse(json || "{}") } } : block,
  );
  return { role: "assistant", content };
}

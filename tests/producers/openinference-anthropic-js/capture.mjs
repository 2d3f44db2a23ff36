// Anthropic's client in JavaScript under OpenInference's instrumentation, in the loop of an application's own.

import * as anthropic from "@anthropic-ai/sdk";
import { AnthropicInstrumentation } from "@arizeai/openinference-instrumentation-anthropic";
import { captureClient, tracing } from "../stub/clients.mjs";
import { STUB, versionsOf } from "../stub/client.mjs";

const provider = tracing("anthropic-app");
const Anthropic = anthropic.default;
new AnthropicInstrumentation({ tracerProvider: provider }).manuallyInstrument(Anthropic);
const client = new Anthropic({ apiKey: "none", baseURL: STUB, maxRetries: 0 });

await captureClient(
  {
    producer: "openinference-anthropic-js",
    versions: versionsOf("@anthropic-ai/sdk", "@arizeai/openinference-instrumentation-anthropic"),
    convention: "OpenInference",
    scenarios: [
      "one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn", "unknown_tool", "bad_args",
      "no_tool", "stream", "stream_parallel",
    ],
  },
  provider,
  {
    user: (text) => ({ role: "user", content: text }),
    turn: async (scenario, messages) => {
      const asked = {
        model: "claude-stub",
        max_tokens: 200,
        system: "You are helpful.",
        messages,
        tools: scenario.tools.map(({ name, description, parameters }) => ({ name, description, input_schema: parameters })),
      };
      let content;
      if (scenario.stream) content = await streamed(asked);
      else content = (await client.messages.create(asked)).content;
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

async function streamed(asked) {
  const blocks = [];
  for await (const event of await client.messages.create({ ...asked, stream: true })) {
    if (event.type === "content_block_start") blocks.push({ ...event.content_block, json: "" });
    else if (event.type === "content_block_delta") {
      const block = blocks.at(-1);
      if (event.delta.type === "text_delta") block.text += event.delta.text;
      else block.json += event.delta.partial_json;
    }
  }
  return blocks.map(({ json, ...block }) => (block.type === "tool_use" ? { ...block, input: JSON.parse(json || "{}") } : block));
}

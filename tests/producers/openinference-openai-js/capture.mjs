// OpenAI's client in JavaScript under OpenInference's instrumentation: chat completions, or responses (API=responses).

import OpenAI from "openai";
import { OpenAIInstrumentation } from "@arizeai/openinference-instrumentation-openai";
import { captureClient, parsed, tracing } from "../stub/clients.mjs";
import { STUB, versionsOf } from "../stub/client.mjs";

const byResponses = process.env.API === "responses";
const provider = tracing("openai-app");
new OpenAIInstrumentation({ tracerProvider: provider }).manuallyInstrument(OpenAI);
const client = new OpenAI({ apiKey: "none", baseURL: `${STUB}/v1`, maxRetries: 0 });

const options = {
  producer: byResponses ? "openinference-openai-js-responses" : "openinference-openai-js",
  versions: versionsOf("openai", "@arizeai/openinference-instrumentation-openai"),
  convention: "OpenInference",
  scenarios: [
    "one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn", "unknown_tool", "bad_args", "bad_json",
    "no_tool", "stream", "stream_parallel",
  ],
};

const chat = {
  user: (text) => ({ role: "user", content: text }),
  turn: async (scenario, messages) => {
    const tools = scenario.tools.map(({ name, description, parameters }) => ({ type: "function", function: { name, description, parameters } }));
    const asked = { model: "stub-model", messages, tools };
    const message = scenario.stream ? await streamed(asked) : (await client.chat.completions.create(asked)).choices[0].message;
    const calls = message.tool_calls ?? [];
    return { message, calls: calls.map((one) => ({ id: one.id, name: one.function.name, args: parsed(one.function.arguments) })) };
  },
  results: (answered) => answered.map(({ id, text }) => ({ role: "tool", tool_call_id: id, content: text })),
};

async function streamed(asked) {
  const message = { role: "assistant", content: "", tool_calls: [] };
  for await (const chunk of await client.chat.completions.create({ ...asked, stream: true })) {
    const delta = chunk.choices[0]?.delta ?? {};
    message.content += delta.content ?? "";
    for (const { index, ...part } of delta.tool_calls ?? []) {
      if (part.id) message.tool_calls[index] = part;
      else message.tool_calls[index].function.arguments += part.function.arguments;
    }
  }
  if (!message.tool_calls.length) delete message.tool_calls;
  return message;
}

const responses = {
  user: chat.user,
  turn: async (scenario, history) => {
    const tools = scenario.tools.map(({ name, description, parameters }) => ({ type: "function", name, description, parameters, strict: false }));
    const asked = { model: "stub-model", instructions: "You are helpful.", input: history.flat(), tools };
    let answer;
    if (scenario.stream) {
      for await (const event of await client.responses.create({ ...asked, stream: true })) if (event.type === "response.completed") answer = event.response;
    } else answer = await client.responses.create(asked);
    const calls = answer.output.filter((one) => one.type === "function_call");
    return { message: answer.output, calls: calls.map((one) => ({ id: one.call_id, name: one.name, args: parsed(one.arguments) })) };
  },
  results: (answered) => answered.map(({ id, text }) => ({ type: "function_call_output", call_id: id, output: text })),
};

await captureClient(options, provider, byResponses ? responses : chat);

// Laminar's SDK for JavaScript over the OpenAI client, with tools under `observe`.

import { Laminar, observe } from "@lmnr-ai/lmnr";
import OpenAI from "openai";
import { capture, runTool, STUB, versionsOf } from "../stub/client.mjs";

Laminar.initialize({
  projectApiKey: "none",
  baseUrl: "http://127.0.0.1",
  httpPort: Number(STUB.split(":").at(-1)),
  forceHttp: true,
  instrumentModules: { openAI: OpenAI },
});
const client = new OpenAI({ baseURL: `${STUB}/v1`, apiKey: "none", maxRetries: 0 });

async function called(scenario, name, text) {
  if (!scenario.tools.some((one) => one.name === name)) return `Error: unknown tool ${name}`;
  try {
    const result = await observe({ name, spanType: "TOOL" }, async (args) => runTool(name, args), JSON.parse(text));
    return typeof result === "string" ? result : JSON.stringify(result);
  } catch (error) {
    return `Error: ${error.name}: ${error.message}`;
  }
}

async function answer(scenario, messages) {
  const tools = scenario.tools.map((one) => ({ type: "function", function: one }));
  for (;;) {
    const { message } = (await client.chat.completions.create({ model: "stub-model", messages, tools })).choices[0];
    messages.push(message);
    if (!message.tool_calls?.length) return message.content;
    for (const { id, function: call } of message.tool_calls)
      messages.push({ role: "tool", tool_call_id: id, content: await called(scenario, call.name, call.arguments) });
  }
}

await capture(
  {
    producer: "laminar-js",
    versions: versionsOf("@lmnr-ai/lmnr", "openai"),
    convention: "Laminar",
    scenarios: ["one_call", "parallel", "tool_error", "multi_turn", "unknown_tool", "bad_json", "no_tool"],
    flush: () => Laminar.flush(),
  },
  async (scenario, text, number, state) => {
    const messages = (state.messages ??= []);
    messages.push({ role: "user", content: text });
    const session = scenario.conversation_id ? { sessionId: scenario.conversation_id } : {};
    await observe({ name: "agent", ...session }, () => answer(scenario, messages));
  },
);
process.exit(0);

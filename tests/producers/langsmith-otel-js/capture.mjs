// LangSmith's OpenTelemetry export in JavaScript: an application's own loop of a wrapped client and `traceable` tools.

import { capture, STUB, versionsOf } from "../stub/client.mjs";

Object.assign(process.env, { LANGSMITH_TRACING: "true", LANGSMITH_TRACING_MODE: "otel", LANGSMITH_API_KEY: "none", LANGSMITH_ENDPOINT: STUB });
const { initializeOTEL } = await import("langsmith/experimental/otel/setup");
const otel = initializeOTEL({ exporterConfig: { url: `${STUB}/v1/traces` } });
const { traceable } = await import("langsmith/traceable");
const { wrapOpenAI } = await import("langsmith/wrappers");
const { RunTree } = await import("langsmith/run_trees");
const { default: OpenAI } = await import("openai");
const { runTool } = await import("../stub/client.mjs");
const client = wrapOpenAI(new OpenAI({ apiKey: "none", baseURL: `${STUB}/v1`, maxRetries: 0 }));

async function call(scenario, { id, function: { name, arguments: text } }) {
  const tool = scenario.tools.find((one) => one.name === name);
  const answer = (content) => ({ role: "tool", tool_call_id: id, content });
  if (!tool) return answer(`Error: no tool called ${name}`);
  let args;
  try {
    args = JSON.parse(text);
  } catch {
    return answer(`Error: invalid arguments for tool ${name}: no JSON`);
  }
  const missing = tool.parameters.required.filter((key) => !(key in args));
  if (missing.length) return answer(`Error: invalid arguments for tool ${name}: missing ${missing.join(", ")}`);
  try {
    return answer(JSON.stringify(await traceable((given) => runTool(name, given), { name, run_type: "tool" })(args)));
  } catch (error) {
    return answer(`Error: ${error.name}: ${error.message}`);
  }
}

await capture(
  {
    producer: "langsmith-otel-js",
    versions: versionsOf("langsmith", "openai"),
    convention: "LangSmith's OpenTelemetry export",
    scenarios: ["one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn", "unknown_tool", "bad_args", "bad_json", "no_tool"],
    flush: async () => {
      await RunTree.getSharedClient().awaitPendingTraceBatches();
      await otel.DEFAULT_LANGSMITH_SPAN_PROCESSOR.forceFlush();
    },
  },
  async (scenario, text, number, state) => {
    const messages = (state.messages ??= []);
    const tools = scenario.tools.map(({ name, description, parameters }) => ({ type: "function", function: { name, description, parameters } }));
    const metadata = scenario.conversation_id ? { session_id: scenario.conversation_id } : {};
    await traceable(
      async (question) => {
        messages.push({ role: "user", content: question });
        for (let step = 0; step < 8; step++) {
          const { message } = (await client.chat.completions.create({ model: "stub-model", messages, tools })).choices[0];
          messages.push(message);
          if (!message.tool_calls) return message.content;
          for (const one of message.tool_calls) messages.push(await call(scenario, one));
        }
      },
      { name: "assistant", metadata },
    )(text);
  },
);

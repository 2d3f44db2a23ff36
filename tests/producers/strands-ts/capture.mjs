// Strands Agents in TypeScript with its own spans; LATEST=1 writes the newest conventions.

if (process.env.LATEST) process.env.OTEL_SEMCONV_STABILITY_OPT_IN = "gen_ai_latest_experimental,gen_ai_tool_definitions";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { capture, runTool, STUB, versionsOf } from "../stub/client.mjs";

const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": "strands-app" }),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter({ url: `${STUB}/v1/traces` }))],
});
provider.register();
const { Agent, FunctionTool } = await import("@strands-agents/sdk");
const { OpenAIModel } = await import("@strands-agents/sdk/models/openai");

const model = () =>
  new OpenAIModel({ api: "responses", modelId: "stub-model", apiKey: "none", clientConfig: { baseURL: `${STUB}/v1`, maxRetries: 0 } });

function toolsOf(described) {
  return described.map(
    (one) => new FunctionTool({ name: one.name, description: one.description, inputSchema: one.parameters, callback: (input) => runTool(one.name, input) }),
  );
}

function application(scenario) {
  const tools = toolsOf(scenario.tools);
  const named = (name) => tools.filter((one) => one.name === name);
  if (scenario.name === "subagent") {
    const flights = new Agent({ name: "flight_agent", model: model(), tools: named("search_flights"), printer: false });
    const inner = new FunctionTool({
      name: "flight_agent",
      description: "Finds flights",
      inputSchema: { type: "object", properties: { input: { type: "string" } }, required: ["input"] },
      callback: async ({ input }) => String(await flights.invoke(input)),
    });
    return new Agent({ name: "coordinator", model: model(), tools: [inner, ...named("get_weather")], printer: false });
  }
  const traceAttributes = scenario.conversation_id ? { "session.id": scenario.conversation_id } : undefined;
  return new Agent({ name: "assistant", model: model(), systemPrompt: "You are helpful.", tools, printer: false, traceAttributes });
}

await capture(
  {
    producer: process.env.LATEST ? "strands-ts-latest" : "strands-ts",
    versions: versionsOf("@strands-agents/sdk"),
    convention: process.env.LATEST ? "Strands, newest conventions" : "Strands, default",
    scenarios: [
      "one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn", "subagent", "unknown_tool",
      "bad_args", "bad_json", "no_tool",
    ],
    flush: () => provider.forceFlush(),
  },
  async (scenario, text, number, state) => {
    if (!number) state.agent = application(scenario);
    await state.agent.invoke(text);
  },
);

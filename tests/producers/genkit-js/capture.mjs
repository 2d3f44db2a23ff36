// Genkit in JavaScript with its own spans: flows, generate, models by the OpenAI plug-in, tools.

import { trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { openAICompatible } from "@genkit-ai/compat-oai";
import { genkit, z } from "genkit";
import { capture, runTool, STUB, versionsOf, zodOf } from "../stub/client.mjs";

const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": "genkit-app" }),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter({ url: `${STUB}/v1/traces` }))],
});
provider.register();

function application(scenario) {
  const ai = genkit({
    plugins: [openAICompatible({ name: "stub", apiKey: "none", baseURL: `${STUB}/v1` })],
    model: "stub/stub-model",
  });
  const tools = scenario.tools.map((tool) =>
    ai.defineTool(
      { name: tool.name, description: tool.description, inputSchema: zodOf(tool.parameters, z), outputSchema: z.any() },
      (input) => runTool(tool.name, input),
    ),
  );
  return { ai, tools };
}

await capture(
  {
    producer: "genkit-js",
    versions: versionsOf("genkit", "@genkit-ai/compat-oai"),
    convention: "Genkit's own spans (genkit:*)",
    scenarios: [
      "one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn",
      "subagent", "unknown_tool", "bad_args", "no_tool", "stream",
    ],
    flush: () => provider.forceFlush(),
  },
  async (scenario, text, number, state) => {
    if (!number) Object.assign(state, application(scenario));
    const { ai, tools } = state;
    const agent = { system: "You are a helpful assistant.", prompt: text, tools, messages: state.messages };
    let offered = tools;
    if (scenario.name === "subagent") {
      const inner = tools.find((tool) => tool.__action.name === "search_flights");
      const flights = ai.defineTool(
        { name: "flight_agent", description: "Finds flights", inputSchema: z.object({ input: z.string() }), outputSchema: z.string() },
        async ({ input }) => (await ai.generate({ prompt: input, tools: [inner] })).text,
      );
      offered = [flights, ...tools.filter((tool) => tool !== inner)];
    }
    const flow = ai.defineFlow(`assistant${number}`, async (question) => {
      if (scenario.stream) {
        const { response, stream } = ai.generateStream({ ...agent, tools: offered, prompt: question });
        for await (const _ of stream);
        return (await response).text;
      }
      const answer = await ai.generate({ ...agent, tools: offered, prompt: question });
      state.messages = answer.messages;
      return answer.text;
    });
    await flow(text);
  },
);

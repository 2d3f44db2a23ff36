// Axiom's AI SDK around Vercel's: wrapped model, wrapped tools, a span around each request.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { generateText, stepCountIs, tool } from "ai";
import { initAxiomAI, RedactionPolicy, withSpan, wrapAISDKModel, wrapTools } from "axiom/ai";
import { z } from "zod";
import { capture, runTool, STUB, versionsOf, zodOf } from "../stub/client.mjs";

const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": "axiom-app" }),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter({ url: `${STUB}/v1/traces` }))],
});
provider.register();
initAxiomAI({ tracer: trace.getTracer("axiom-app"), redactionPolicy: RedactionPolicy.AxiomDefault });
const model = wrapAISDKModel(createOpenAICompatible({ name: "stub", apiKey: "none", baseURL: `${STUB}/v1` })("stub-model"));

await capture(
  {
    producer: "axiom",
    versions: versionsOf("axiom", "ai"),
    convention: "Axiom AI",
    scenarios: [
      "one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn", "unknown_tool", "bad_args",
      "no_tool",
    ],
    flush: () => provider.forceFlush(),
  },
  async (scenario, text, number, state) => {
    const messages = (state.messages ??= []);
    messages.push({ role: "user", content: text });
    const made = scenario.tools.map((one) => [
      one.name,
      tool({ description: one.description, inputSchema: zodOf(one.parameters, z), execute: (input) => runTool(one.name, input) }),
    ]);
    const tools = wrapTools(Object.fromEntries(made));
    await withSpan({ capability: "support", step: "answer" }, async () => {
      const answer = await generateText({ model, messages, tools, stopWhen: stepCountIs(6), system: "Help the user.", maxRetries: 0 });
      messages.push(...answer.response.messages);
    });
  },
);

// Mastra's agents with its own observability and its OpenTelemetry exporter.

import { Agent } from "@mastra/core/agent";
import { Mastra } from "@mastra/core/mastra";
import { createTool } from "@mastra/core/tools";
import { Observability, SensitiveDataFilter } from "@mastra/observability";
import { OtelExporter } from "@mastra/otel-exporter";
import { z } from "zod";
import { capture, runTool, STUB, versionsOf, zodOf } from "../stub/client.mjs";

let mastra;
const model = { id: "stub/stub-model", url: `${STUB}/v1`, apiKey: "none" };

function application(scenario) {
  const tools = Object.fromEntries(
    scenario.tools.map((tool) => [
      tool.name,
      createTool({
        id: tool.name,
        description: tool.description,
        inputSchema: zodOf(tool.parameters, z),
        execute: (input) => runTool(tool.name, input),
      }),
    ]),
  );
  const agents = {};
  if (scenario.name === "subagent") {
    const { search_flights, ...others } = tools;
    agents.flights = new Agent({ id: "flights", name: "flights", description: "Finds flights", instructions: "Find flights.", model, tools: { search_flights } });
    agents.assistant = new Agent({ id: "assistant", name: "assistant", instructions: "You are helpful.", model, tools: others, agents: { flights: agents.flights } });
  } else {
    agents.assistant = new Agent({ id: "assistant", name: "assistant", instructions: "You are helpful.", model, tools });
  }
  return new Mastra({
    logger: false,
    agents,
    observability: new Observability({
      configs: {
        otel: {
          serviceName: "mastra-app",
          exporters: [
            new OtelExporter({ provider: { custom: { endpoint: `${STUB}/v1/traces`, protocol: "http/protobuf" } } }),
          ],
        },
      },
    }),
  });
}

await capture(
  {
    producer: "mastra",
    versions: versionsOf("@mastra/core", "@mastra/observability", "@mastra/otel-exporter"),
    convention: "GenAI conventions and mastra.*",
    names: { subagent: "agent-flights", subagent_argument: "prompt" },
    scenarios: [
      "one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn",
      "subagent", "unknown_tool", "bad_args", "bad_json", "no_tool", "stream", "stream_parallel",
    ],
    flush: async () => {
      await mastra?.observability?.getDefaultInstance?.()?.flush?.();
      await mastra?.observability?.shutdown?.();
    },
  },
  async (scenario, text, number, state) => {
    if (!number) mastra = application(scenario);
    const agent = mastra.getAgent("assistant");
    const conversation = scenario.conversation_id;
    const options = {
      maxSteps: 8,
      tracingOptions: conversation ? { metadata: { threadId: conversation, sessionId: conversation } } : undefined,
    };
    const asked = [...(state.messages ?? []), { role: "user", content: text }];
    if (scenario.stream) {
      const stream = await agent.stream(asked, options);
      for await (const _ of stream.textStream);
      return;
    }
    const answer = await agent.generate(asked, options);
    state.messages = [...asked, { role: "assistant", content: answer.text }];
  },
);

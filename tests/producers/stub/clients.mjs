// The loop of an agent that calls a model's client itself, for captures of instrumented clients.

import { SpanStatusCode } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { capture, runTool, STUB } from "./client.mjs";

export function tracing(service) {
  const provider = new NodeTracerProvider({
    resource: resourceFromAttributes({ "service.name": service }),
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter({ url: `${STUB}/v1/traces` }))],
  });
  provider.register();
  return provider;
}

/** Run a call of the scenario as a careful application does: unknown names and wrong arguments are told to the model. */
export async function answer(scenario, name, args) {
  const tool = scenario.tools.find((one) => one.name === name);
  if (!tool) return { failed: true, text: `Error: no tool called ${name}` };
  const missing = typeof args === "object" ? tool.parameters.required.filter((key) => !(key in args)) : ["valid JSON"];
  if (missing.length) return { failed: true, text: `Error: invalid arguments for tool ${name}: missing ${missing.join(", ")}` };
  try {
    const result = await runTool(name, args);
    return { failed: false, text: typeof result === "string" ? result : JSON.stringify(result) };
  } catch (error) {
    return { failed: true, text: `Error: ${error.name}: ${error.message}` };
  }
}

/**
 * Play scenarios under one span a run. `turn(scenario, history)` asks the model once and returns
 * `{ message, calls: [{ id, name, args }] }`; `results(history, answered)` adds what the tools gave back.
 */
export async function captureClient(options, provider, { user, turn, results }) {
  const tracer = provider.getTracer("support-app");
  await capture({ ...options, flush: () => provider.forceFlush() }, async (scenario, text, number, state) => {
    const history = (state.history ??= []);
    history.push(user(text));
    await tracer.startActiveSpan("answer", async (span) => {
      try {
        for (let step = 0; step < 8; step++) {
          const { message, calls } = await turn(scenario, history);
          history.push(message);
          if (!calls.length) break;
          const answered = [];
          for (const call of calls) answered.push({ ...call, ...(await answer(scenario, call.name, call.args)) });
          history.push(...results(answered));
        }
      } catch (error) {
        span.setStatus({ code: SpanStatusCode.ERROR, message: String(error) });
        throw error;
      } finally {
        span.end();
      }
    });
  });
}

export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

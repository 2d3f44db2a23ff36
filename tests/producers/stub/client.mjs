// What every capture in JavaScript needs: begin and end a scenario, run its tools, and export to the stub.
// The tools run at the stub, which knows their results and notes what ran with which arguments.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

export const STUB = process.env.STUB ?? "http://127.0.0.1:21500";

async function post(route, body) {
  const answer = await fetch(`${STUB}/stub/${route}`, { method: "POST", body: JSON.stringify(body ?? null) });
  const value = await answer.json();
  if (!answer.ok) throw new Error(`stub: ${JSON.stringify(value)}`);
  return value;
}

/** Run a tool of the scenario; its error is thrown with its own name. */
export async function runTool(name, args) {
  const { result, error } = await post(`tools/${name}`, args ?? {});
  if (!error) return result;
  throw Object.assign(new Error(error.message), { name: error.type });
}

/** The installed versions of packages, for the truth. */
export function versionsOf(...names) {
  const installed = (name) =>
    JSON.parse(readFileSync(path.join(process.cwd(), "node_modules", name, "package.json"), "utf8")).version;
  return { ...Object.fromEntries(names.map((name) => [name, installed(name)])), node: process.versions.node.split(".")[0] };
}

export const require = createRequire(path.join(process.cwd(), "package.json"));

/** A tool's schema for zod. */
export function zodOf(schema, z) {
  if (schema.enum) return z.enum(schema.enum);
  switch (schema.type) {
    case "object": {
      const shape = Object.entries(schema.properties ?? {}).map(([name, inner]) => {
        const made = zodOf(inner, z);
        return [name, schema.required?.includes(name) ? made : made.optional()];
      });
      return z.object(Object.fromEntries(shape));
    }
    case "array":
      return z.array(zodOf(schema.items, z));
    case "integer":
      return z.number().int();
    case "number":
      return z.number();
    case "boolean":
      return z.boolean();
    default:
      return z.string();
  }
}

/**
 * Play scenarios one after another. `play(scenario, text, number)` runs the application once; `flush` empties its exporter.
 * Scenarios come from the command line, else from `options.scenarios`.
 */
export async function capture(options, play) {
  const named = process.argv.slice(2);
  const failures = [];
  for (const scenario of named.length ? named : options.scenarios) {
    const described = await post("begin", {
      producer: options.producer,
      scenario,
      versions: options.versions,
      names: options.names ?? {},
      convention: options.convention,
      note: options.notes?.[scenario],
    });
    const state = {};
    for (const [number, run] of described.runs.entries()) {
      await post("run");
      try {
        await play(described, run.text, number, state);
      } catch (error) {
        await post("failed", `${error?.name ?? "Error"}: ${String(error?.message ?? error).split("\n")[0]}`);
        failures.push(`${scenario}: ${error?.stack ?? error}`);
      }
      await new Promise((done) => setTimeout(done, 60));
    }
    await options.flush();
    const truth = await post("end");
    for (const trace of truth.traces) {
      const shown = trace.tool_calls.map((call) => `${call.name}${call.executed ? "" : "!"}${call.error ? "?" : ""}`);
      console.log(scenario, trace.trace_id.slice(0, 8), (trace.other_trace_ids ?? []).length, shown.join(" "), truth.files.length);
    }
    if (!truth.traces.length) console.log(scenario, "NO TRACES");
  }
  for (const failure of failures) console.log("FAILED", failure.slice(0, 600));
}

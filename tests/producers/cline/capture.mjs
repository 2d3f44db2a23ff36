// Cline's SDK (the core of its CLI) with its OpenTelemetry service: log events, and metrics; the released CLI sends them to Cline alone.

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

const home = mkdtempSync(path.join(tmpdir(), "home-"));
Object.assign(process.env, { HOME: home, CLINE_DATA_DIR: path.join(home, "data") });
const { ClineCore, createOpenTelemetryTelemetryService } = await import("@cline/core");
const { capture, runTool, STUB, versionsOf } = await import("../stub/client.mjs");

const { provider, telemetry } = createOpenTelemetryTelemetryService({
  enabled: true, logsExporter: "otlp", tracesExporter: "otlp", metricsExporter: "otlp", otlpProtocol: "http/protobuf", otlpEndpoint: STUB,
  serviceName: "cline-app", metadata: { extension_version: "0.0.86", cline_type: "cli", platform: "terminal", platform_version: "20" },
});

await capture(
  {
    producer: "cline",
    versions: versionsOf("@cline/core"),
    convention: "Cline's log events",
    scenarios: ["one_call", "sequence3", "parallel", "tool_error", "retry", "nested", "unknown_tool", "no_tool"],
    flush: () => provider.forceFlush(),
  },
  async (scenario, text) => {
    const cline = await ClineCore.create({ backendMode: "local", telemetry });
    const extraTools = scenario.tools.map(({ name, description, parameters }) => ({
      name, description, inputSchema: parameters, execute: (input) => runTool(name, input),
    }));
    const done = await cline.start({
      config: {
        providerId: "openai-compatible", modelId: "gpt-4o", apiKey: "none", baseUrl: `${STUB}/v1`, cwd: home, workspaceRoot: home, mode: "act",
        enableTools: false, enableSpawnAgent: false, enableAgentTeams: false, systemPrompt: "Help the user.", extraTools, telemetry,
      },
      prompt: text,
      interactive: false,
      toolPolicies: { "*": { autoApprove: true } },
    });
    console.log(done.result?.finishReason, done.result?.text?.slice(0, 100));
    await cline.dispose();
  },
);
process.exit(0);

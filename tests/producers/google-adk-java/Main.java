import com.fasterxml.jackson.databind.JsonNode;
import com.google.adk.agents.LlmAgent;
import com.google.adk.agents.RunConfig;
import com.google.adk.models.Gemini;
import com.google.adk.runner.InMemoryRunner;
import com.google.adk.sessions.SessionKey;
import com.google.adk.tools.AgentTool;
import com.google.adk.tools.BaseTool;
import com.google.adk.tools.ToolContext;
import com.google.genai.Client;
import com.google.genai.types.Content;
import com.google.genai.types.FunctionDeclaration;
import com.google.genai.types.HttpOptions;
import com.google.genai.types.Part;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.exporter.otlp.http.trace.OtlpHttpSpanExporter;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.resources.Resource;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.export.BatchSpanProcessor;
import io.reactivex.rxjava3.core.Single;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;

/** The scenarios with the Agent Development Kit for Java and its own spans. */
public class Main {
    private static InMemoryRunner runner;
    private static SessionKey session;

    private static final class StubTool extends BaseTool {
        private final JsonNode tool;

        StubTool(JsonNode tool) {
            super(tool.get("name").asText(), tool.get("description").asText());
            this.tool = tool;
        }

        @Override
        public Optional<FunctionDeclaration> declaration() {
            return Optional.of(FunctionDeclaration.builder().name(name()).description(description())
                    .parametersJsonSchema(Stub.JSON.convertValue(tool.get("parameters"), Object.class)).build());
        }

        @Override
        public Single<Map<String, Object>> runAsync(Map<String, Object> given, ToolContext context) {
            return Single.fromCallable(() -> {
                var result = Stub.tool(name(), given);
                if (result instanceof Map<?, ?> map) {
                    @SuppressWarnings("unchecked") var typed = (Map<String, Object>) map;
                    return typed;
                }
                return Map.of("result", result);
            });
        }
    }

    private static List<BaseTool> tools(JsonNode scenario, Predicate<String> wanted) {
        var found = new ArrayList<BaseTool>();
        for (JsonNode tool : scenario.get("tools")) {
            if (wanted.test(tool.get("name").asText())) found.add(new StubTool(tool));
        }
        return found;
    }

    private static LlmAgent.Builder agent(String name) {
        var client = Client.builder().apiKey("none").httpOptions(HttpOptions.builder().baseUrl(Stub.URL).build()).build();
        return LlmAgent.builder().name(name).description(name).instruction("Help the user.")
                .model(Gemini.builder().modelName("gemini-2.5-flash").apiClient(client).build());
    }

    private static LlmAgent application(JsonNode scenario) {
        switch (scenario.get("name").asText()) {
            case "subagent":
                var inner = agent("flight_agent").tools(tools(scenario, "search_flights"::equals)).build();
                var offered = tools(scenario, name -> !name.equals("search_flights"));
                offered.add(AgentTool.create(inner));
                return agent("coordinator").tools(offered).build();
            case "handoff":
                return agent("triage_agent")
                        .subAgents(agent("refund_agent").tools(tools(scenario, name -> true)).build()).build();
            default:
                return agent("assistant").tools(tools(scenario, name -> true)).build();
        }
    }

    public static void main(String[] args) throws Exception {
        var exporter = OtlpHttpSpanExporter.builder().setEndpoint(Stub.URL + "/v1/traces").build();
        var provider = SdkTracerProvider.builder()
                .setResource(Resource.create(Attributes.of(AttributeKey.stringKey("service.name"), "adk-java-app")))
                .addSpanProcessor(BatchSpanProcessor.builder(exporter).setScheduleDelay(60, TimeUnit.SECONDS).build()).build();
        OpenTelemetrySdk.builder().setTracerProvider(provider).buildAndRegisterGlobal();
        Stub.capture("google-adk-java", "ADK's own spans (gcp.vertex.agent)",
                Map.of("google-adk", "1.8.0", "google-genai", "1.58.0", "opentelemetry-java", "1.51.0"),
                Map.of("subagent_argument", "request", "handoff", "transfer_to_agent", "handoff_arguments", Map.of("agent_name", "refund_agent")), args,
                List.of("one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn",
                        "subagent", "handoff", "unknown_tool", "bad_args", "no_tool", "stream", "stream_parallel"),
                () -> provider.forceFlush().join(20, TimeUnit.SECONDS),
                (scenario, text, number) -> {
                    if (number == 0) {
                        runner = new InMemoryRunner(application(scenario), "shop");
                        var id = scenario.get("conversation_id");
                        session = runner.sessionService()
                                .createSession("shop", "user", null, id.isNull() ? null : id.asText()).blockingGet().sessionKey();
                    }
                    var mode = scenario.get("stream").asBoolean() ? RunConfig.StreamingMode.SSE : RunConfig.StreamingMode.NONE;
                    runner.runAsync(session, Content.fromParts(Part.fromText(text)),
                            RunConfig.builder().streamingMode(mode).build()).blockingSubscribe(event -> {});
                });
        System.exit(0);
    }
}

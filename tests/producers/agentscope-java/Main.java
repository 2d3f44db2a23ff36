import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import io.agentscope.core.ReActAgent;
import io.agentscope.core.memory.InMemoryMemory;
import io.agentscope.core.message.Msg;
import io.agentscope.core.message.MsgRole;
import io.agentscope.core.message.TextBlock;
import io.agentscope.core.message.ToolResultBlock;
import io.agentscope.core.model.OpenAIChatModel;
import io.agentscope.core.tool.AgentTool;
import io.agentscope.core.tool.ToolCallParam;
import io.agentscope.core.tool.Toolkit;
import io.agentscope.core.tracing.TracerRegistry;
import io.agentscope.core.tracing.telemetry.TelemetryTracer;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.exporter.otlp.http.trace.OtlpHttpSpanExporter;
import io.opentelemetry.sdk.resources.Resource;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.export.BatchSpanProcessor;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import reactor.core.publisher.Mono;

/** AgentScope for Java with its own TelemetryTracer. */
public class Main {
    private static ReActAgent agent;

    private record StubTool(String name, String description, Map<String, Object> schema) implements AgentTool {
        @Override
        public String getName() {
            return name;
        }

        @Override
        public String getDescription() {
            return description;
        }

        @Override
        public Map<String, Object> getParameters() {
            return schema;
        }

        @Override
        public Mono<ToolResultBlock> callAsync(ToolCallParam param) {
            return Mono.fromCallable(() -> {
                Object result = Stub.tool(name, param.getInput());
                return ToolResultBlock.text(result instanceof String text ? text : Stub.JSON.writeValueAsString(result));
            });
        }
    }

    private static ReActAgent made(JsonNode scenario) {
        var toolkit = new Toolkit();
        for (JsonNode tool : scenario.get("tools")) {
            Map<String, Object> schema = Stub.JSON.convertValue(tool.get("parameters"), new TypeReference<>() {});
            toolkit.registerAgentTool(new StubTool(tool.get("name").asText(), tool.get("description").asText(), schema));
        }
        var model = OpenAIChatModel.builder().apiKey("none").modelName("stub-model").baseUrl(Stub.URL + "/v1")
                .stream(scenario.get("stream").asBoolean()).build();
        return ReActAgent.builder().name("assistant").sysPrompt("Help the user.").model(model).toolkit(toolkit)
                .memory(new InMemoryMemory()).maxIters(6).build();
    }

    public static void main(String[] args) throws Exception {
        var provider = SdkTracerProvider.builder()
                .setResource(Resource.create(Attributes.of(AttributeKey.stringKey("service.name"), "agentscope-app")))
                .addSpanProcessor(BatchSpanProcessor.builder(OtlpHttpSpanExporter.builder().setEndpoint(Stub.URL + "/v1/traces").build())
                        .setScheduleDelay(60, TimeUnit.SECONDS).build()).build();
        TracerRegistry.register(TelemetryTracer.builder().tracer(provider.get("agentscope-java")).build());
        Stub.capture("agentscope-java", "AgentScope's TelemetryTracer", Map.of("agentscope", "1.0.9", "java", "17"), Map.of(), args,
                List.of("one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn", "unknown_tool",
                        "bad_args", "no_tool", "stream"),
                () -> provider.forceFlush().join(10, TimeUnit.SECONDS),
                (scenario, text, number) -> {
                    if (number == 0) agent = made(scenario);
                    agent.call(Msg.builder().name("user").role(MsgRole.USER)
                            .content(TextBlock.builder().text(text).build()).build()).block();
                });
        System.exit(0);
    }
}

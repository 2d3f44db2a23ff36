import com.fasterxml.jackson.databind.JsonNode;
import com.openai.client.OpenAIClient;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.core.JsonValue;
import com.openai.helpers.ChatCompletionAccumulator;
import com.openai.models.chat.completions.ChatCompletion;
import com.openai.models.chat.completions.ChatCompletionCreateParams;
import com.openai.models.chat.completions.ChatCompletionToolMessageParam;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.exporter.otlp.http.logs.OtlpHttpLogRecordExporter;
import io.opentelemetry.exporter.otlp.http.trace.OtlpHttpSpanExporter;
import io.opentelemetry.instrumentation.openai.v1_1.OpenAITelemetry;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.logs.SdkLoggerProvider;
import io.opentelemetry.sdk.logs.export.BatchLogRecordProcessor;
import io.opentelemetry.sdk.resources.Resource;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.export.BatchSpanProcessor;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** OpenAI's client for Java in a loop of an agent's own, under OpenTelemetry's library instrumentation. */
public class Main {
    private static final Resource RESOURCE =
            Resource.create(Attributes.of(AttributeKey.stringKey("service.name"), "openai-java-app"));
    private static final SdkTracerProvider SPANS = SdkTracerProvider.builder().setResource(RESOURCE)
            .addSpanProcessor(BatchSpanProcessor.builder(OtlpHttpSpanExporter.builder().setEndpoint(Stub.URL + "/v1/traces").build())
                    .setScheduleDelay(60, TimeUnit.SECONDS).build()).build();
    private static final SdkLoggerProvider LOGS = SdkLoggerProvider.builder().setResource(RESOURCE)
            .addLogRecordProcessor(BatchLogRecordProcessor.builder(OtlpHttpLogRecordExporter.builder().setEndpoint(Stub.URL + "/v1/logs").build())
                    .setScheduleDelay(60, TimeUnit.SECONDS).build()).build();
    private static final OpenTelemetrySdk SDK =
            OpenTelemetrySdk.builder().setTracerProvider(SPANS).setLoggerProvider(LOGS).build();
    private static ChatCompletionCreateParams.Builder messages;

    private static ChatCompletion asked(OpenAIClient client, ChatCompletionCreateParams params, boolean streams) {
        if (!streams) return client.chat().completions().create(params);
        var whole = ChatCompletionAccumulator.create();
        try (var stream = client.chat().completions().createStreaming(params)) {
            stream.stream().forEach(whole::accumulate);
        }
        return whole.chatCompletion();
    }

    private static String called(String name, String arguments, JsonNode scenario) {
        for (JsonNode tool : scenario.get("tools")) {
            if (!tool.get("name").asText().equals(name)) continue;
            try {
                return Stub.JSON.writeValueAsString(Stub.tool(name, Stub.JSON.readValue(arguments, Map.class)));
            } catch (Exception error) {
                return "Error: " + error.getClass().getName().replace("Stub$ToolFailed", "ToolException") + ": " + error.getMessage();
            }
        }
        return "Error: no tool " + name;
    }

    public static void main(String[] args) throws Exception {
        Stub.capture("otel-openai-java", "OpenTelemetry's openai-java-1.1, events as log records",
                Map.of("opentelemetry-openai-java-1.1", "2.31.1-alpha", "openai-java", "4.101.0"), Map.of(), args,
                List.of("one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn",
                        "unknown_tool", "bad_args", "bad_json", "no_tool", "stream", "stream_parallel", "content_off"),
                () -> {
                    SPANS.forceFlush().join(20, TimeUnit.SECONDS);
                    LOGS.forceFlush().join(20, TimeUnit.SECONDS);
                },
                (scenario, text, number) -> {
                    var client = OpenAITelemetry.builder(SDK).setCaptureMessageContent(scenario.get("content").asBoolean()).build()
                            .wrap(OpenAIOkHttpClient.builder().baseUrl(Stub.URL + "/v1").apiKey("none").maxRetries(0).build());
                    if (number == 0) {
                        var tools = new ArrayList<Object>();
                        for (JsonNode tool : scenario.get("tools")) {
                            tools.add(Map.of("type", "function", "function", Stub.JSON.convertValue(tool, Map.class)));
                        }
                        messages = ChatCompletionCreateParams.builder().model("stub-model")
                                .putAdditionalBodyProperty("tools", JsonValue.from(tools)).addSystemMessage("Help the user.");
                    }
                    messages.addUserMessage(text);
                    var span = SDK.getTracer("agent").spanBuilder("agent").startSpan();
                    try (var scope = span.makeCurrent()) {
                        while (true) {
                            var message = asked(client, messages.build(), scenario.get("stream").asBoolean()).choices().get(0).message();
                            messages.addMessage(message);
                            if (message.toolCalls().isEmpty() || message.toolCalls().get().isEmpty()) return;
                            for (var call : message.toolCalls().get()) {
                                var function = call.asFunction();
                                messages.addMessage(ChatCompletionToolMessageParam.builder().toolCallId(function.id())
                                        .content(called(function.function().name(), function.function().arguments(), scenario)).build());
                            }
                        }
                    } finally {
                        span.end();
                    }
                });
        System.exit(0);
    }
}

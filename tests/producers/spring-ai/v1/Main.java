import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.springframework.ai.chat.client.ChatClient;
import org.springframework.ai.chat.client.advisor.MessageChatMemoryAdvisor;
import org.springframework.ai.chat.memory.ChatMemory;
import org.springframework.ai.chat.memory.MessageWindowChatMemory;
import org.springframework.ai.model.tool.ToolCallingManager;
import org.springframework.ai.openai.OpenAiChatModel;
import org.springframework.ai.openai.OpenAiChatOptions;
import org.springframework.ai.openai.api.OpenAiApi;
import org.springframework.ai.tool.ToolCallback;
import org.springframework.ai.tool.function.FunctionToolCallback;
import org.springframework.core.ParameterizedTypeReference;

/** The scenarios with Spring AI 1.1: chat client, memory, tools, and the observations of all of them. */
public class Main {
    private static Tracing tracing;
    private static ChatClient client;

    private static ToolCallback tool(JsonNode tool) {
        String name = tool.get("name").asText();
        return FunctionToolCallback.builder(name, (Map<String, Object> given) -> Stub.tool(name, given))
                .description(tool.get("description").asText()).inputSchema(tool.get("parameters").toString())
                .inputType(new ParameterizedTypeReference<Map<String, Object>>() {}).build();
    }

    private static ToolCallback delegation(ChatClient inner) {
        return FunctionToolCallback.builder("flight_agent", (Map<String, Object> given) ->
                        inner.prompt().user(String.valueOf(given.get("input"))).call().content())
                .description("Finds flights")
                .inputSchema("{\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\"}}}")
                .inputType(new ParameterizedTypeReference<Map<String, Object>>() {}).build();
    }

    private static List<ToolCallback> tools(JsonNode scenario, Predicate<String> wanted) {
        var found = new ArrayList<ToolCallback>();
        for (JsonNode tool : scenario.get("tools")) {
            if (wanted.test(tool.get("name").asText())) found.add(tool(tool));
        }
        return found;
    }

    private static ChatClient application(JsonNode scenario) {
        tracing = new Tracing("support-bot", scenario.get("content").asBoolean());
        var registry = tracing.registry;
        var manager = ToolCallingManager.builder().observationRegistry(registry).build();
        var model = OpenAiChatModel.builder()
                .openAiApi(OpenAiApi.builder().baseUrl(Stub.URL).apiKey("none").build())
                .defaultOptions(OpenAiChatOptions.builder().model("stub-model").build())
                .toolCallingManager(manager).observationRegistry(registry).build();
        var offered = tools(scenario, name -> !name.equals("search_flights"));
        if (scenario.get("name").asText().equals("subagent")) {
            var inner = ChatClient.builder(model, registry, null, null)
                    .defaultToolCallbacks(tools(scenario, "search_flights"::equals)).build();
            offered.add(delegation(inner));
        }
        var builder = ChatClient.builder(model, registry, null, null)
                .defaultSystem("You help customers. Use the tools.").defaultToolCallbacks(offered);
        if (!scenario.get("conversation_id").isNull()) {
            builder.defaultAdvisors(MessageChatMemoryAdvisor.builder(MessageWindowChatMemory.builder().build()).build());
        }
        return builder.build();
    }

    public static void main(String[] args) throws Exception {
        reactor.core.publisher.Hooks.enableAutomaticContextPropagation();
        Stub.capture("spring-ai", "Spring AI's observations, Micrometer to OpenTelemetry",
                Map.of("spring-ai", System.getProperty("version"), "micrometer-tracing", "1.5.1", "opentelemetry-java", "1.49.0"),
                Map.of(), args,
                List.of("one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn",
                        "subagent", "unknown_tool", "bad_args", "bad_json", "no_tool", "stream", "stream_parallel", "content_off"),
                () -> tracing.close(),
                (scenario, text, number) -> {
                    if (number == 0) client = application(scenario);
                    var id = scenario.get("conversation_id");
                    var prompt = client.prompt().user(text);
                    if (!id.isNull()) prompt.advisors(a -> a.param(ChatMemory.CONVERSATION_ID, id.asText()));
                    if (scenario.get("stream").asBoolean()) prompt.stream().content().collectList().block();
                    else prompt.call().content();
                });
        System.exit(0);
    }
}

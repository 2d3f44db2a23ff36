import dev.langchain4j.agent.tool.Tool;
import dev.langchain4j.service.MemoryId;
import dev.langchain4j.service.SystemMessage;
import dev.langchain4j.service.UserMessage;
import io.quarkiverse.langchain4j.RegisterAiService;
import io.quarkus.runtime.QuarkusApplication;
import io.quarkus.runtime.annotations.QuarkusMain;
import jakarta.enterprise.context.ApplicationScoped;
import jakarta.enterprise.context.control.ActivateRequestContext;
import jakarta.inject.Inject;
import java.util.List;
import java.util.Map;

/** Quarkus LangChain4j with its own spans. */
@QuarkusMain
public class Main implements QuarkusApplication {
    public record When(String date, int minutes) {}

    public record Attendee(String name, String email) {}

    @ApplicationScoped
    public static class Tools {
        @Tool(name = "get_weather", value = "Weather of a city")
        public String weather(String city, String unit) throws Exception {
            return run("get_weather", Map.of("city", city, "unit", unit));
        }

        @Tool(name = "find_customer", value = "Find a customer by e-mail")
        public String customer(String email) throws Exception {
            return run("find_customer", Map.of("email", email));
        }

        @Tool(name = "list_orders", value = "Orders of a customer")
        public String orders(String customer_id) throws Exception {
            return run("list_orders", Map.of("customer_id", customer_id));
        }

        @Tool(name = "refund_order", value = "Refund an order")
        public String refund(String order_id, double amount, String reason) throws Exception {
            return run("refund_order", Map.of("order_id", order_id, "amount", amount, "reason", reason));
        }

        @Tool(name = "delete_file", value = "Delete a file")
        public String delete(String path) throws Exception {
            return run("delete_file", Map.of("path", path));
        }

        @Tool(name = "fetch_report", value = "Fetch a report")
        public String report(String report_id) throws Exception {
            return run("fetch_report", Map.of("report_id", report_id));
        }

        @Tool(name = "create_event", value = "Create a calendar event")
        public String event(String title, When when, List<Attendee> attendees, String notes, boolean isPrivate) throws Exception {
            return run("create_event", Map.of("title", title, "when", when, "attendees", attendees, "notes", notes, "private", isPrivate));
        }

        private String run(String name, Map<String, ?> arguments) throws Exception {
            Object result = Stub.tool(name, arguments);
            return result instanceof String text ? text : Stub.JSON.writeValueAsString(result);
        }
    }

    @RegisterAiService(tools = Tools.class)
    @ApplicationScoped
    public interface Assistant {
        @SystemMessage("Help the user.")
        String answer(@MemoryId String conversation, @UserMessage String question);
    }

    @Inject
    Assistant assistant;

    @ActivateRequestContext
    String ask(String conversation, String text) {
        return assistant.answer(conversation, text);
    }

    @Override
    public int run(String... args) throws Exception {
        Stub.capture("quarkus-langchain4j", "Quarkus LangChain4j's own spans", Map.of("quarkus-langchain4j-openai", "1.10.0", "quarkus", "3.33.2", "java", "17"),
                Map.of(), args, List.of("one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "multi_turn", "unknown_tool",
                        "bad_args", "no_tool"),
                () -> {
                    try {
                        Thread.sleep(1000);
                    } catch (InterruptedException error) {
                        throw new IllegalStateException(error);
                    }
                },
                (scenario, text, number) -> {
                    var conversation = scenario.get("conversation_id");
                    ask(conversation.isNull() ? scenario.get("name").asText() : conversation.asText(), text);
                });
        return 0;
    }
}

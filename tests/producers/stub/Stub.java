import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.List;
import java.util.Map;

/** What every capture in Java needs: begins and ends scenarios at the stub, and runs their tools there. */
public final class Stub {
    public static final String URL = System.getenv().getOrDefault("STUB", "http://127.0.0.1:21500");
    public static final ObjectMapper JSON = new ObjectMapper();
    private static final HttpClient CLIENT = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    private Stub() {}

    /** A tool's own failure. */
    public static final class ToolFailed extends RuntimeException {
        ToolFailed(String message) {
            super(message);
        }
    }

    public interface Play {
        void play(JsonNode scenario, String text, int number) throws Exception;
    }

    public static JsonNode post(String route, Object body) {
        try {
            var request = HttpRequest.newBuilder(URI.create(URL + "/stub/" + route))
                    .POST(HttpRequest.BodyPublishers.ofString(JSON.writeValueAsString(body))).build();
            return JSON.readTree(CLIENT.send(request, BodyHandlers.ofString()).body());
        } catch (IOException | InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Run a tool of the scenario. */
    public static Object tool(String name, Object arguments) {
        var answer = post("tools/" + name, arguments);
        if (answer.has("error")) throw new ToolFailed(answer.get("error").get("message").asText());
        return JSON.convertValue(answer.get("result"), Object.class);
    }

    /** Play scenarios one after another, those of the command line or these. */
    public static void capture(String producer, String convention, Map<String, String> versions, Map<String, ?> names,
            String[] named, List<String> scenarios, Runnable flush, Play play) throws Exception {
        for (String scenario : named.length > 0 ? List.of(named) : scenarios) {
            var described = post("begin", Map.of("producer", producer, "scenario", scenario, "versions", versions,
                    "names", names, "convention", convention));
            int number = 0;
            for (JsonNode run : described.get("runs")) {
                post("run", Map.of());
                Thread.sleep(20);
                try {
                    play.play(described, run.get("text").asText(), number++);
                } catch (Exception error) {
                    post("failed", error.getClass().getSimpleName() + ": " + error.getMessage());
                    System.out.println("FAILED " + error);
                }
                Thread.sleep(60);
            }
            flush.run();
            var truth = post("end", Map.of());
            System.out.println(scenario + " " + truth.path("files").size() + " files");
            for (JsonNode trace : truth.path("traces")) {
                var line = new StringBuilder("  " + trace.get("trace_id").asText().substring(0, 8) + " +"
                        + trace.path("other_trace_ids").size());
                for (JsonNode call : trace.get("tool_calls")) {
                    line.append(' ').append(call.get("name").asText()).append(call.get("executed").asBoolean() ? "" : "!")
                            .append(call.get("error").isNull() ? "" : "?");
                }
                System.out.println(line);
            }
        }
    }
}

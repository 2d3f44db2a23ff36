import ai.koog.agents.core.agent.AIAgent
import ai.koog.agents.core.agent.singleRunStrategy
import ai.koog.agents.core.tools.Tool
import ai.koog.agents.core.tools.ToolDescriptor
import ai.koog.agents.core.tools.ToolParameterDescriptor
import ai.koog.agents.core.tools.ToolParameterType
import ai.koog.agents.core.tools.ToolRegistry
import ai.koog.agents.features.opentelemetry.feature.OpenTelemetry
import ai.koog.http.client.ktor.KtorKoogHttpClient
import ai.koog.prompt.executor.clients.openai.OpenAIClientSettings
import ai.koog.prompt.executor.clients.openai.OpenAILLMClient
import ai.koog.prompt.executor.llms.MultiLLMPromptExecutor
import ai.koog.prompt.llm.LLMCapability
import ai.koog.prompt.llm.LLMProvider
import ai.koog.prompt.llm.LLModel
import ai.koog.serialization.typeToken
import com.fasterxml.jackson.databind.JsonNode
import io.opentelemetry.exporter.otlp.http.trace.OtlpHttpSpanExporter
import kotlinx.coroutines.runBlocking
import kotlinx.serialization.json.JsonObject

/** The scenarios with an agent of Koog, under its feature OpenTelemetry. */
class StubTool(descriptor: ToolDescriptor) :
    Tool<JsonObject, String>(typeToken<JsonObject>(), typeToken<String>(), descriptor) {
    override suspend fun execute(args: JsonObject): String {
        val result = Stub.tool(name, Stub.JSON.readTree(args.toString()))
        return if (result is String) result else Stub.JSON.writeValueAsString(result)
    }
}

fun typeOf(schema: JsonNode): ToolParameterType = when {
    schema.has("enum") -> ToolParameterType.Enum(schema["enum"].map { it.asText() }.toTypedArray())
    schema["type"].asText() == "object" -> ToolParameterType.Object(
        schema["properties"].properties().map { (name, inner) -> ToolParameterDescriptor(name, name, typeOf(inner)) },
        schema["required"].map { it.asText() },
    )
    schema["type"].asText() == "array" -> ToolParameterType.List(typeOf(schema["items"]))
    schema["type"].asText() == "number" -> ToolParameterType.Float
    schema["type"].asText() == "integer" -> ToolParameterType.Integer
    schema["type"].asText() == "boolean" -> ToolParameterType.Boolean
    else -> ToolParameterType.String
}

fun tool(described: JsonNode): StubTool {
    val schema = described["parameters"]
    val required = schema["required"].map { it.asText() }
    val (needed, others) = schema["properties"].properties()
        .map { (name, inner) -> ToolParameterDescriptor(name, name, typeOf(inner)) }.partition { it.name in required }
    return StubTool(ToolDescriptor(described["name"].asText(), described["description"].asText(), needed, others))
}

fun main(args: Array<String>) {
    val client = OpenAILLMClient("none", OpenAIClientSettings(Stub.URL), KtorKoogHttpClient.Factory())
    val model = LLModel(
        LLMProvider.OpenAI, "stub-model",
        listOf(LLMCapability.Tools, LLMCapability.Completion, LLMCapability.OpenAIEndpoint.Completions),
    )
    Stub.capture(
        "koog", "OpenTelemetry GenAI", mapOf("koog-agents" to "1.1.1", "kotlin" to KotlinVersion.CURRENT.toString()),
        mapOf<String, Any>(), args,
        listOf("one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "unknown_tool", "bad_args", "no_tool"),
        // Nothing flushes its exporter, which waits for five seconds.
        { Thread.sleep(7000) },
    ) { scenario, text, _ ->
        val agent = AIAgent(
            promptExecutor = MultiLLMPromptExecutor(client),
            llmModel = model,
            toolRegistry = ToolRegistry { scenario["tools"].forEach { tool(tool(it)) } },
            systemPrompt = "Help the user.",
            id = "assistant",
        ) {
            install(OpenTelemetry) {
                setServiceInfo("koog-app", "1.0")
                addSpanExporter(OtlpHttpSpanExporter.builder().setEndpoint(Stub.URL + "/v1/traces").build())
                setVerbose(true)
            }
        }
        runBlocking {
            agent.run(text)
            agent.close()
        }
    }
    System.exit(0)
}

import io.micrometer.observation.ObservationRegistry;
import io.micrometer.tracing.handler.DefaultTracingObservationHandler;
import io.micrometer.tracing.otel.bridge.OtelBaggageManager;
import io.micrometer.tracing.otel.bridge.OtelCurrentTraceContext;
import io.micrometer.tracing.otel.bridge.OtelTracer;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.exporter.otlp.http.trace.OtlpHttpSpanExporter;
import io.opentelemetry.sdk.resources.Resource;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.export.BatchSpanProcessor;
import java.util.List;
import org.springframework.ai.tool.observation.ToolCallingContentObservationFilter;

/** Observations to OpenTelemetry spans, as Spring Boot's actuator wires them. */
final class Tracing implements AutoCloseable {
    final ObservationRegistry registry = ObservationRegistry.create();
    private final SdkTracerProvider provider;

    Tracing(String service, boolean content) {
        var exporter = OtlpHttpSpanExporter.builder().setEndpoint(Stub.URL + "/v1/traces").build();
        provider = SdkTracerProvider.builder()
                .setResource(Resource.create(Attributes.of(AttributeKey.stringKey("service.name"), service)))
                .addSpanProcessor(BatchSpanProcessor.builder(exporter).build())
                .build();
        var sdk = io.opentelemetry.sdk.OpenTelemetrySdk.builder().setTracerProvider(provider).build();
        var context = new OtelCurrentTraceContext();
        var tracer = new OtelTracer(sdk.getTracer("org.springframework.boot"), context, event -> {},
                new OtelBaggageManager(context, List.of(), List.of()));
        registry.observationConfig().observationHandler(new DefaultTracingObservationHandler(tracer));
        if (content) registry.observationConfig().observationFilter(new ToolCallingContentObservationFilter());
    }

    @Override
    public void close() {
        provider.close();
    }
}

// Genkit in Go with its own spans: flows, generate, an OpenAI-compatible model, tools.

package main

import (
	"context"
	"fmt"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"
	"github.com/firebase/genkit/go/plugins/compat_oai"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
)

var (
	app     *genkit.Genkit
	tools   []ai.ToolRef
	history []*ai.Message
)

func application(ctx context.Context, one scenario) {
	plugin := &compat_oai.OpenAICompatible{Provider: "stub", APIKey: "none", BaseURL: stubURL() + "/v1"}
	app = genkit.Init(ctx, genkit.WithPlugins(plugin), genkit.WithDefaultModel("stub/stub-model"))
	genkit.RegisterAction(app, plugin.DefineModel("stub", "stub-model", ai.ModelOptions{Supports: &compat_oai.BasicText}))
}

func define(one tool) ai.ToolRef {
	return genkit.DefineTool(app, one.Name, one.Description, func(_ *ai.ToolContext, given any) (any, error) {
		return runTool(one.Name, given)
	}, ai.WithInputSchema(one.Parameters))
}

func main() {
	ctx := context.Background()
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(stubURL()+"/v1/traces"))
	if err != nil {
		panic(err)
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter),
		trace.WithResource(resource.NewSchemaless(attribute.String("service.name", "genkit-go-app"))))
	otel.SetTracerProvider(provider)
	about := begun{
		Producer:   "genkit-go",
		Versions:   map[string]string{"github.com/firebase/genkit/go": "1.4.0"},
		Convention: "Genkit's own spans (genkit:*)",
	}
	capture(about, []string{
		"one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn", "subagent",
		"unknown_tool", "bad_args", "bad_json", "no_tool", "stream", "stream_parallel",
	}, func() { _ = provider.ForceFlush(ctx) }, func(one scenario, text string, number int) error {
		if number == 0 {
			history, tools = nil, nil
			application(ctx, one)
			var inner []ai.ToolRef
			for _, each := range one.Tools {
				if each.Name == "search_flights" {
					inner = append(inner, define(each))
				} else {
					tools = append(tools, define(each))
				}
			}
			if one.Name == "subagent" {
				tools = append(tools, genkit.DefineTool(app, "flight_agent", "Finds flights",
					func(ctx *ai.ToolContext, given struct {
						Input string `json:"input"`
					}) (string, error) {
						answer, err := genkit.Generate(ctx, app, ai.WithPrompt(given.Input), ai.WithTools(inner...))
						if err != nil {
							return "", err
						}
						return answer.Text(), nil
					}))
			}
		}
		flow := genkit.DefineFlow(app, fmt.Sprintf("assistant%d", number), func(ctx context.Context, question string) (string, error) {
			messages := append(history, ai.NewUserTextMessage(question))
			options := []ai.GenerateOption{ai.WithSystem("You are a helpful assistant."), ai.WithMessages(messages...), ai.WithTools(tools...)}
			if one.Stream {
				options = append(options, ai.WithStreaming(func(context.Context, *ai.ModelResponseChunk) error { return nil }))
			}
			answer, err := genkit.Generate(ctx, app, options...)
			if err != nil {
				return "", err
			}
			history = answer.History()
			return answer.Text(), nil
		})
		_, err := flow.Run(ctx, text)
		return err
	})
}

//! Rig's agents, whose spans go from `tracing` through `tracing-opentelemetry` to the stub. Scenarios come from the command line, else all.

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, WithExportConfig};
use opentelemetry_sdk::{trace::SdkTracerProvider, Resource};
use rig_agent::prelude::*;
use rig_core::message::ToolName;
use rig_core::providers::openai::OpenAI;
use rig_core::tool::{DynamicTool, ToolErrorKind, ToolExecutionError, ToolOutput};
use serde_json::{json, Value};
use tracing_subscriber::layer::SubscriberExt;

const SCENARIOS: &[&str] = &[
    "one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn", "unknown_tool",
    "bad_args", "no_tool",
];

fn stub() -> String {
    std::env::var("STUB").unwrap_or("http://127.0.0.1:21500".into())
}

async fn post(route: &str, body: Value) -> Value {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = client.post(format!("{}/stub/{route}", stub())).json(&body).send().await.unwrap();
    answer.json().await.unwrap()
}

fn tool(described: &Value) -> DynamicTool {
    let name = described["name"].as_str().unwrap().to_string();
    let called = name.clone();
    DynamicTool::new(
        ToolName::try_from(name).unwrap(),
        described["description"].as_str().unwrap(),
        described["parameters"].clone(),
        move |arguments| {
            let called = called.clone();
            Box::pin(async move {
                let answer = post(&format!("tools/{called}"), arguments).await;
                match answer["error"].as_object() {
                    Some(error) => Err(ToolExecutionError::new(ToolErrorKind::Other, error["message"].as_str().unwrap())),
                    None => Ok(ToolOutput::json(answer["result"].clone())),
                }
            })
        },
    )
}

async fn play(scenario: &Value, text: &str, history: Vec<Message>) -> Result<Vec<Message>, PromptError> {
    let tools = scenario["tools"].as_array().unwrap().iter().map(tool).collect();
    let model = OpenAI::from_env().unwrap().completion("stub-model");
    let agent = AgentBuilder::new(model)
        .name("assistant")
        .preamble("Help the user.")
        .record_content_telemetry(true)
        .dynamic_tools(tools)
        .build();
    let answer = agent.prompt(text).history(history).max_turns(8).await?;
    Ok(answer.messages)
}

#[tokio::main]
async fn main() {
    std::env::set_var("OPENAI_API_KEY", "none");
    std::env::set_var("OPENAI_BASE_URL", format!("{}/v1", stub()));
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(format!("{}/v1/traces", stub()))
        .build()
        .unwrap();
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(Resource::builder().with_service_name("rig-app").build())
        .build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("rig-app"));
    let filter = tracing_subscriber::EnvFilter::new("off,rig=info,rig_core=info,rig_agent=info");
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(filter).with(layer)).unwrap();
    let named: Vec<String> = std::env::args().skip(1).collect();
    let scenarios = if named.is_empty() { SCENARIOS.iter().map(|name| name.to_string()).collect() } else { named };
    for name in scenarios {
        let about = json!({"producer": "rig", "scenario": name, "versions": {"rig-agent": "0.44.0", "rig-core": "0.44.0", "rust": "1.95"},
            "convention": "Rig's own spans (tracing)"});
        let scenario = post("begin", about).await;
        let mut history = vec![];
        for run in scenario["runs"].as_array().unwrap() {
            post("run", Value::Null).await;
            match play(&scenario, run["text"].as_str().unwrap(), history.clone()).await {
                Ok(messages) => history = messages,
                Err(error) => {
                    println!("FAILED {name} {error}");
                    post("failed", json!(error.to_string())).await;
                }
            }
            tokio::time::sleep(std::time::Duration::from_millis(60)).await;
        }
        provider.force_flush().unwrap();
        let truth = post("end", Value::Null).await;
        for trace in truth["traces"].as_array().unwrap() {
            let calls: Vec<_> = trace["tool_calls"].as_array().unwrap().iter().map(|call| call["name"].as_str().unwrap()).collect();
            println!("{name} {} {calls:?}", trace["trace_id"]);
        }
    }
}

"""AG2 under OpenInference: an assistant and the user's proxy that runs its tools."""

from client import STUB, capture, tools_of, traced
from openinference.instrumentation import using_session
from openinference.instrumentation.ag2 import AG2Instrumentor

provider = traced("ag2-app")
AG2Instrumentor().instrument(tracer_provider=provider)

from autogen import AssistantAgent, UserProxyAgent, register_function


def application(scenario):
    configuration = {
        "model": "stub-model",
        "api_key": "none",
        "base_url": f"{STUB}/v1",
        "max_retries": 0,
        "cache_seed": None,
    }
    assistant = AssistantAgent(
        "assistant",
        system_message="Help the user.",
        llm_config={"config_list": [configuration | {"stream": scenario["stream"]}]},
    )
    user = UserProxyAgent(
        "user",
        human_input_mode="NEVER",
        code_execution_config=False,
        is_termination_msg=lambda message: not message.get("tool_calls"),
    )
    for tool in tools_of(scenario):
        register_function(tool, caller=assistant, executor=user, name=tool.__name__, description=tool.__doc__)
    return user, assistant


def play(scenario, text, number, state):
    user, assistant = state["agents"] if number else state.setdefault("agents", application(scenario))
    with using_session(scenario["conversation_id"] or ""):
        user.initiate_chat(assistant, message=text, clear_history=not number)


capture(
    "openinference-ag2",
    play,
    packages=("ag2", "openinference-instrumentation-ag2", "opentelemetry-sdk"),
    convention="OpenInference",
)

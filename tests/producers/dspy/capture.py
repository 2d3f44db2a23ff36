"""DSPy's ReAct with OpenInference's instrumentation: its model writes the next tool into the fields of DSPy's prompt format."""

import os
from types import SimpleNamespace

from client import capture, definitions_of, tools_of, traced, without
from steps import ask

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
provider = traced("dspy-app")
from openinference.instrumentation.dspy import DSPyInstrumentor

DSPyInstrumentor().instrument(tracer_provider=provider)
import dspy


class StubModel(dspy.BaseLM):
    """Asks the stub as a client of chat completions does, and writes its calls one by one as ReAct wants them."""

    def __init__(self, scenario, text):
        super().__init__(model="openai/stub-model", cache=False)
        self.scenario = scenario
        self.messages = [{"role": "user", "content": text}]
        self.calls = []
        self.final = ""

    def forward(self, prompt=None, messages=None, **kwargs):  # noqa: ARG002 - as DSPy calls it
        if "next_tool_name" not in messages[0]["content"]:
            fields = {"reasoning": "All is known.", "answer": self.final}
        else:
            fields = self._next()
        text = "".join(f"[[ ## {name} ## ]]\n{value}\n\n" for name, value in fields.items()) + "[[ ## completed ## ]]"
        message = SimpleNamespace(content=text, tool_calls=None, reasoning_content=None)
        choice = SimpleNamespace(message=message, finish_reason="stop", index=0)
        usage = {"prompt_tokens": 40, "completion_tokens": 12, "total_tokens": 52}
        return SimpleNamespace(choices=[choice], usage=usage, model="stub-model", id="chatcmpl-1")

    def _next(self):
        if not self.calls:
            body = {"model": "stub-model", "messages": self.messages, "tools": definitions_of(self.scenario)}
            message = ask("v1/chat/completions", body)["choices"][0]["message"]
            self.final = message.get("content") or ""
            self.calls = list(message.get("tool_calls") or ())
            self.messages.append(message)
            self.messages += [{"role": "tool", "tool_call_id": call["id"], "content": "done"} for call in self.calls]
        if not self.calls:
            return {"next_thought": "I know enough.", "next_tool_name": "finish", "next_tool_args": "{}"}
        made = self.calls.pop(0)["function"]
        return {"next_thought": "Call it.", "next_tool_name": made["name"], "next_tool_args": made["arguments"]}


def play(scenario, text, number, state):
    agent = dspy.ReAct("question -> answer", tools=tools_of(scenario), max_iters=8)
    with dspy.context(lm=StubModel(scenario, text), adapter=dspy.ChatAdapter()):
        agent(question=text)


capture(
    "openinference-dspy",
    play,
    packages=("dspy", "openinference-instrumentation-dspy", "opentelemetry-sdk"),
    convention="OpenInference",
    names={"control": {"name": "finish", "arguments": {}}},
    scenarios=without("unknown_tool", "bad_json", "stream"),
)

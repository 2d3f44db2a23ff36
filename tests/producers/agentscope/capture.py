"""AgentScope for Python with its tracing middleware."""

import asyncio
import functools
import json

from agentscope.agent import Agent
from agentscope.credential import OpenAICredential
from agentscope.message import Msg, TextBlock
from agentscope.middleware import TracingMiddleware
from agentscope.model import OpenAIChatModel
from agentscope.tool import FunctionTool, ToolChunk, Toolkit
from client import STUB, capture, tools_of, traced

provider = traced("agentscope-app")
LOOP = asyncio.new_event_loop()


def told(function):
    """Give the result as AgentScope's tools do."""

    @functools.wraps(function)
    def run(**given):
        result = function(**given)
        return ToolChunk(content=[TextBlock(text=result if isinstance(result, str) else json.dumps(result))])

    return run


def application(scenario):
    credential = OpenAICredential(api_key="none", base_url=f"{STUB}/v1")
    model = OpenAIChatModel(credential, "stub-model", stream=scenario["stream"], max_retries=0)
    toolkit = Toolkit(tools=[FunctionTool(told(one), is_read_only=True) for one in tools_of(scenario)])
    return Agent("assistant", "Help the user.", model, toolkit, middlewares=[TracingMiddleware()])


def play(scenario, text, number, state):
    agent = state["agent"] if number else state.setdefault("agent", application(scenario))
    LOOP.run_until_complete(agent.reply(Msg(name="user", content=[TextBlock(text=text)], role="user")))


capture("agentscope", play, packages=("agentscope", "opentelemetry-sdk"), convention="AgentScope's TracingMiddleware")

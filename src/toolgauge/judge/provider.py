"""Judge models of any provider, through pydantic-ai: the verdict is asked for as the arguments of an output tool.

The only module that needs the extra `toolgauge[judge]`; it is reached by its entry point in `toolgauge.judges`.
One request is sent once: retrying, asking again and every bound are not left to libraries.
"""

import logging
from collections.abc import Iterator
from contextlib import AsyncExitStack
from inspect import signature

import httpx2
import msgspec
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import (
    AgentRunError,
    ContentFilterError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelHTTPError,
    ModelRateLimitError,
    UserError,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryFeedbackCause,
    RetryFeedbackPart,
    RetryInfo,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from toolgauge.judge.client import Exchange, Reply, Request
from toolgauge.judge.inquiry import MAX_REASKS
from toolgauge.model.errors import ConfigError, JudgeCallError
from toolgauge.model.json import Json
from toolgauge.model.judging import Question

_MAX_REPLY_BYTES = 512 * 1024
# At `debug` they write whole requests, and at `info` a line a request.
_TALKATIVE = ("openai", "anthropic", "httpx", "httpx2", "httpcore", "httpcore2", "pydantic_ai")
_OPENAI = ("openai:", "openai-chat:")
_REHEARSAL = Question(prompt="", instructions="", form={"type": "object"}, form_name="verdict")
_REHEARSED: Json = {
    "id": "rehearsal",
    "object": "chat.completion",
    "created": 0,
    "model": "rehearsal",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "1", "type": "function", "function": {"name": "verdict", "arguments": "{}"}}],
            },
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


class ProviderClient:
    """Asks one model; implements `judge.client.Client`. `http` is ours to close, other connections are the model's."""

    def __init__(self, model: Model, settings: ModelSettings, http: httpx2.AsyncClient | None = None) -> None:
        self._model = model
        self._settings = settings
        self._http = http
        self._opened = AsyncExitStack()
        self._is_open = False

    async def prepare(self) -> None:
        """Have a provider that is not there answer once: libraries load most of themselves with the first request."""
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(_rehearsed)) as http:
            provider = OpenAICompatibleProvider(
                "rehearsal", base_url="http://rehearsal", api_key="none", http_client=http
            )
            rehearsing = ProviderClient(OpenAIChatModel("rehearsal", provider=provider), self._settings)
            await rehearsing.ask(Request(question=_REHEARSAL))
            await rehearsing.close()

    async def ask(self, request: Request) -> Reply:
        """Send the request once."""
        if not self._is_open:
            self._is_open = True
            await self._opened.enter_async_context(self._model)
        question = request.question
        tool = ToolDefinition(
            name=question.form_name,
            description="Give the verdict.",
            parameters_json_schema=question.form,
            kind="output",
        )
        parameters = ModelRequestParameters(output_mode="tool", output_tools=[tool], allow_text_output=False)
        try:
            response = await model_request(
                self._model,
                list(_messages(request)),
                model_settings=self._settings,
                model_request_parameters=parameters,
                instrument=False,
            )
        except ModelAPIError as error:
            raise _failure(error) from None
        except ContentFilterError:
            raise JudgeCallError("content_filter", "the provider refused the content of the question") from None
        except AgentRunError:
            raise JudgeCallError("invalid_response", "the provider sent a response that cannot be read") from None
        return _reply(question.form_name, response)

    async def close(self) -> None:
        """Close the connections."""
        await self._opened.aclose()
        if self._http is not None:
            await self._http.aclose()


def open_client(
    *, model: str, base_url: str | None, api_key: str | None, max_output_tokens: int, temperature: float | None
) -> ProviderClient:
    """Make the client; raise `ConfigError` when there is no such model, or its provider's package is missing."""
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
    settings = ModelSettings(max_tokens=max_output_tokens, max_retries=0)
    if temperature is not None:
        settings["temperature"] = temperature
    if base_url is not None:
        return _compatible(model, base_url, api_key, settings)
    try:
        return ProviderClient(infer_model(model, lambda name: _provider(name, api_key)), settings)
    except (UserError, ValueError) as error:
        hint = "such as `openai:gpt-5-mini`; any OpenAI-compatible endpoint by `judge.base_url`"
        raise ConfigError(f"`judge.model` cannot be used: {error}", hint=hint) from None
    except ImportError as error:
        raise ConfigError(f"`judge.model` needs a package that is not installed: {error}") from None


def _compatible(model: str, base_url: str, api_key: str | None, settings: ModelSettings) -> ProviderClient:
    prefix = next((prefix for prefix in _OPENAI if model.startswith(prefix)), "")
    http = httpx2.AsyncClient(
        event_hooks={"response": [_bound]},
        # What is compressed may be of any size once it is not.
        headers={"Accept-Encoding": "identity"},
        timeout=None,  # the asker's is around the whole call
    )
    # A key that is not needed must not be empty.
    provider = OpenAICompatibleProvider("judge", base_url=base_url, api_key=api_key or "none", http_client=http)
    return ProviderClient(OpenAIChatModel(model.removeprefix(prefix), provider=provider), settings, http)


def _provider(name: str, api_key: str | None) -> Provider[object]:
    made = infer_provider_class(name)
    if api_key is None:
        return made()
    if "api_key" not in signature(made).parameters:
        raise ConfigError(f"`judge.api_key` is not how provider `{name}` is told who asks", hint="leave it out")
    return made(api_key=api_key)  # pyright: ignore[reportCallIssue] - seen in its signature


def _rehearsed(_request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(200, json=_REHEARSED)


class _BoundedStream(httpx2.AsyncByteStream):
    """Ends a response that is longer than any verdict, before it fills the memory."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self):  # noqa: ANN204 (the type of an async generator, as the base class has it)
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > _MAX_REPLY_BYTES:
                raise _too_long()
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _bound(response: httpx2.Response) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise JudgeCallError("invalid_response", "the provider compressed its response although it was asked not to")
    stream = response.stream
    if isinstance(stream, httpx2.AsyncByteStream):
        response.stream = _BoundedStream(stream)


def _too_long() -> JudgeCallError:
    return JudgeCallError("response_too_large", f"the provider sent more than {_MAX_REPLY_BYTES} bytes")


def _messages(request: Request) -> Iterator[ModelMessage]:
    question = request.question
    yield ModelRequest(parts=[UserPromptPart(question.prompt)], instructions=question.instructions)
    for number, exchange in enumerate(request.exchanges, 1):
        response = exchange.reply.raw
        if isinstance(response, ModelResponse) and response.parts:
            yield response
        yield ModelRequest(parts=list(_objections(exchange, number)), instructions=question.instructions)


def _objections(exchange: Exchange, number: int) -> Iterator[ToolReturnPart | RetryFeedbackPart]:
    response = exchange.reply.raw
    calls = response.tool_calls if isinstance(response, ModelResponse) else ()
    for call in calls:
        # Every call wants its answer, or the next request is refused.
        yield ToolReturnPart(call.tool_name, exchange.problem, call.tool_call_id, outcome="retried")
    if not calls:
        retry = RetryInfo[RetryFeedbackCause](cause="no_output", attempt=number, max_retries=MAX_REASKS)
        yield RetryFeedbackPart(exchange.problem, retry=retry)


def _reply(form_name: str, response: ModelResponse) -> Reply:
    verdict, problem = _verdict(form_name, response)
    usage = response.usage
    is_known = usage.input_tokens > 0
    return Reply(
        verdict=verdict,
        problem=problem,
        input_tokens=usage.input_tokens if is_known else None,
        output_tokens=max(0, usage.output_tokens) if is_known else None,
        raw=response,
    )


def _verdict(form_name: str, response: ModelResponse) -> tuple[Json, str | None]:
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    if len(calls) > 1:
        return None, "give one verdict, not several"
    if calls:
        if calls[0].tool_name != form_name:
            return None, f"there is no tool but `{form_name}`"
        args = calls[0].args
        return _parsed("" if args is None else args)
    # Models without tools write the verdict out.
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart)).strip()
    if not text.startswith("{"):
        return None, f"give the verdict by calling `{form_name}`"
    return _parsed(text)


def _parsed(written: object) -> tuple[Json, str | None]:
    try:
        # Some providers parse it themselves, with readers that take what is no JSON.
        text = written if isinstance(written, str) else msgspec.json.encode(written)
        return msgspec.json.decode(text), None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None, "the verdict is not valid JSON"


def _failure(error: ModelAPIError) -> JudgeCallError:
    """Name the kind of failure; the error's own text may quote the request."""
    cause: BaseException | None = error
    while cause is not None:
        # Ours, raised while a library read the response and wrapped by it.
        if isinstance(cause, JudgeCallError):
            return cause
        cause = cause.__cause__
    match error:
        case ModelRateLimitError():
            kind, message = "rate_limited", "the provider takes no more calls for now"
        case ModelAuthenticationError():
            kind, message = "authentication", "the provider does not accept the key"
        case ModelHTTPError(status_code=status):
            kind, message = f"http_{status}", f"the provider answered with status {status}"
        case ModelConnectionError():
            kind, message = "connection", "the provider could not be reached, or the connection broke"
        case _:
            kind, message = "provider_error", "the provider answered with an error"
    return JudgeCallError(kind, message, retry_after_s=error.retry_after)

"""Judge models of any provider, through pydantic-ai: the verdict is asked for as a tool call, as JSON or in plain text.

The only module that needs the extra `toolgauge[judge]`. One request is sent once: retries and bounds are not left to
libraries. Until it is known which output a provider accepts, a request rejected for its output is sent in the next one.
"""

import json
import logging
import re
import ssl
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from inspect import signature

import httpx2
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
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from toolgauge.judge.inquiry import MAX_REASKS, Exchange, Reply, Request
from toolgauge.judge.reply_reader import Unread, json_format, read_reply, text_format
from toolgauge.judge.settings import Output
from toolgauge.model.errors import ConfigError, JudgeCallError
from toolgauge.model.json import Json
from toolgauge.model.judging import Question
from toolgauge.net.tls import tls_cause

_MAX_REPLY_BYTES = 512 * 1024
_MAX_ERROR = 10_000
# At `debug` they write whole requests, and at `info` a line a request.
_TALKATIVE = ("openai", "anthropic", "httpx", "httpx2", "httpcore", "httpcore2", "pydantic_ai")
# Asked for in this order where `judge.output` does not choose; plain text is the last resort.
_FIRST_OUTPUTS: Sequence[Output] = ("tool", "json")
# A provider without tool calls or JSON answers with one of these, and names the missing feature; 501 names none.
_UNSUPPORTED_STATUS = frozenset({400, 404, 405, 415, 422, 500, 501})
_UNSUPPORTED = {
    "tool": re.compile(r"tool|function", re.IGNORECASE),
    "json": re.compile(r"response.?format|json|structured|schema|grammar", re.IGNORECASE),
}
_REFUSED = re.compile(
    r"support|not (?:allowed|permitted|enabled|available|implemented|expected)|unknown|unrecogni[sz]ed|unexpected"
    r"|extra|invalid|require|must be|cannot|disabled|forbidden|no endpoints",
    re.IGNORECASE,
)
# The library would take an unfinished thought for the answer: tags that never occur leave thoughts to our own reader.
_WHOLE_TEXT = ModelProfile(thinking_tags=("\ue000", "\ue001"))
_OPENAI = ("openai:", "openai-chat:")
_NOT_ACCEPTED = "the provider does not accept `judge.output"


class ProviderClient:
    """Asks one model. `http` is ours to close; `output` `None` is the first of `tool`, `json` and `text` that the provider accepts."""

    def __init__(
        self,
        model: Model,
        settings: ModelSettings,
        http: httpx2.AsyncClient | None = None,
        output: Output | None = None,
    ) -> None:
        self._model = model
        self._settings = settings
        self._http = http
        # Found with the first question that is answered, and kept: a client asks one model.
        self._output: Output | None = output
        self._opened = AsyncExitStack()
        self._is_open = False

    async def ask(self, request: Request) -> Reply:
        """Send the request once."""
        if not self._is_open:
            self._is_open = True
            await self._opened.enter_async_context(self._model)
        for output in _FIRST_OUTPUTS if self._output is None else ():
            try:
                reply = await self._asked(request, output)
            except _UnsupportedOutputError:
                continue
            self._output = output
            return reply
        output = self._output or "text"
        reply = await self._asked(request, output)
        self._output = output
        return reply

    async def _asked(self, request: Request, output: Output) -> Reply:
        try:
            response = await model_request(
                self._model,
                list(_messages(request, output)),
                model_settings=self._settings,
                model_request_parameters=_parameters(request.question, output),
                instrument=False,
            )
        except ModelAPIError as error:
            raise _failure(error, output) from None
        except ContentFilterError:
            raise JudgeCallError("content_filter", "the provider refused the content of the question") from None
        except UserError:
            if output == "text":
                raise
            # The library knows of some models that they have no tools.
            raise _UnsupportedOutputError("unsupported_output", f"{_NOT_ACCEPTED}: {output}`") from None
        except AgentRunError:
            raise JudgeCallError("invalid_response", "the provider sent a response that cannot be read") from None
        verdict, problem = _verdict(request.question, response, output)
        usage = response.usage
        is_known = usage.input_tokens > 0
        return Reply(
            verdict=verdict,
            problem=problem,
            text="\n".join(map(_arguments, response.tool_calls)) or _text(response),
            input_tokens=usage.input_tokens if is_known else None,
            output_tokens=max(0, usage.output_tokens) if is_known else None,
            raw=response,
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._opened.aclose()
        if self._http is not None:
            await self._http.aclose()


def open_client(
    *,
    model: str,
    base_url: str | None,
    api_key: str | None,
    max_output_tokens: int,
    temperature: float | None,
    output: Output | None = None,
) -> ProviderClient:
    """Make the client; raise `ConfigError` when there is no such model, or its provider's package is missing."""
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
    settings = ModelSettings(max_tokens=max_output_tokens, max_retries=0)
    if temperature is not None:
        settings["temperature"] = temperature
    if base_url is not None:
        http = httpx2.AsyncClient(
            event_hooks={"response": [_bound]},
            # A compressed response could decompress to any size.
            headers={"Accept-Encoding": "identity"},
            timeout=None,  # the asker's is around the whole call
        )
        # A key that is not needed must not be empty.
        compatible = OpenAICompatibleProvider("judge", base_url=base_url, api_key=api_key or "none", http_client=http)
        prefix = next((prefix for prefix in _OPENAI if model.startswith(prefix)), "")
        chat = OpenAIChatModel(model.removeprefix(prefix), provider=compatible, profile=_WHOLE_TEXT)
        return ProviderClient(chat, settings, http, output)

    def provider(name: str) -> Provider[object]:
        made = infer_provider_class(name)
        if api_key is None:
            return made()
        if "api_key" not in signature(made).parameters:
            raise ConfigError(f"`judge.api_key` does not apply to provider `{name}`", hint="leave it out")
        return made(api_key=api_key)  # pyright: ignore[reportCallIssue] - seen in its signature

    try:
        return ProviderClient(infer_model(model, provider), settings, output=output)
    except (UserError, ValueError) as error:
        hint = "such as `openai:gpt-5-mini`; any OpenAI-compatible endpoint by `judge.base_url`"
        raise ConfigError(f"`judge.model` cannot be used: {error}", hint=hint) from None
    except ImportError as error:
        raise ConfigError(f"`judge.model` needs a package that is not installed: {error}") from None


class _BoundedStream(httpx2.AsyncByteStream):
    """Ends a response that is longer than any verdict, before it fills the memory."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self):  # noqa: ANN204 (the type of an async generator, as the base class has it)
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > _MAX_REPLY_BYTES:
                message = f"the provider sent more than {_MAX_REPLY_BYTES} bytes"
                raise JudgeCallError("response_too_large", message)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _bound(response: httpx2.Response) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise JudgeCallError("invalid_response", "the provider compressed its response although it was asked not to")
    stream = response.stream
    if isinstance(stream, httpx2.AsyncByteStream):
        response.stream = _BoundedStream(stream)


class _UnsupportedOutputError(JudgeCallError):
    """The provider does not take requests with this output."""


def _parameters(question: Question, output: Output) -> ModelRequestParameters:
    match output:
        case "tool":
            tool = ToolDefinition(
                name=question.form_name,
                description="Give the verdict.",
                parameters_json_schema=question.form,
                kind="output",
            )
            return ModelRequestParameters(output_mode="tool", output_tools=[tool], allow_text_output=False)
        case "json":
            # Where the provider has a mode for JSON, this turns it on. The form is in our own instructions.
            return ModelRequestParameters(output_mode="prompted", prompted_output_template=False)
        case "text":
            return ModelRequestParameters(output_mode="text")


def _messages(request: Request, output: Output) -> Iterator[ModelMessage]:
    question = request.question
    instructions = question.instructions
    if output != "tool":
        plain = text_format(question.form) if output == "text" else None
        instructions = f"{instructions}\n\n{plain or json_format(question.form)}"
    yield ModelRequest(parts=[UserPromptPart(question.prompt)], instructions=instructions)
    for number, exchange in enumerate(request.exchanges, 1):
        response = exchange.reply.raw
        if isinstance(response, ModelResponse) and response.parts:
            yield response
        yield ModelRequest(parts=list(_objections(exchange, number, output)), instructions=instructions)


def _objections(
    exchange: Exchange, number: int, output: Output
) -> Iterator[ToolReturnPart | RetryFeedbackPart | UserPromptPart]:
    response = exchange.reply.raw
    calls = response.tool_calls if isinstance(response, ModelResponse) else ()
    for call in calls:
        # Every call wants its answer, or the next request is refused.
        yield ToolReturnPart(call.tool_name, exchange.problem, call.tool_call_id, outcome="retried")
    if calls:
        return
    if output == "tool":
        retry = RetryInfo[RetryFeedbackCause](cause="no_output", attempt=number, max_retries=MAX_REASKS)
        yield RetryFeedbackPart(exchange.problem, retry=retry)
    else:
        # Small models answer the library's own frame around it instead of the question.
        yield UserPromptPart(exchange.problem)


def _verdict(question: Question, response: ModelResponse, output: Output) -> tuple[Json, str | None]:
    """Read the verdict from the tool call, else from the text: models without tools write the verdict out."""
    calls, name = response.tool_calls, question.form_name
    if len(calls) > 1:
        return None, "give one verdict, not several"
    if calls and calls[0].tool_name != name:
        return None, f"there is no tool but `{name}`"
    if not calls and response.finish_reason == "length":
        # Its end is missing: "Score: 0" may have been on the way to 0.9.
        return None, "the answer was cut at `judge.max_output_tokens`: give a shorter one"
    read = read_reply(_arguments(calls[0]) if calls else _text(response), question.form)
    if not isinstance(read, Unread):
        return read, None
    # How to give a verdict, for a model that gave none.
    if calls:
        wanted = "the verdict is not valid JSON"
    elif output == "tool":
        wanted = f"give the verdict by calling `{name}`"
    elif output == "text" and text_format(question.form) is not None:
        wanted = "end with the verdict on a line of its own, as the instructions say"
    else:
        wanted = "give the verdict as one JSON object"
    return None, read.problem or wanted


def _text(response: ModelResponse) -> str:
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))


def _arguments(call: ToolCallPart) -> str:
    if isinstance(call.args, str):
        return call.args
    # Some providers parse arguments themselves, with readers that accept invalid JSON.
    return json.dumps(call.args or {})


def _failure(error: ModelAPIError, output: Output) -> JudgeCallError:
    """Name the kind of failure; the error's own text may quote the request."""
    cause: BaseException | None = error
    tls = ""
    while cause is not None:
        if isinstance(cause, ssl.SSLError) and (found := tls_cause(str(cause))):
            tls = f": {found}"
        # Ours, raised while a library read the response and wrapped by it.
        if isinstance(cause, JudgeCallError):
            return cause
        cause = cause.__cause__ or cause.__context__
    # The provider rejects the output and not the question: its answer names an output that it does not take.
    named, is_unsupported = _UNSUPPORTED.get(output), False
    if named is not None and isinstance(error, ModelHTTPError) and error.status_code in _UNSUPPORTED_STATUS:
        answer = str(error.body)[:_MAX_ERROR]
        names_output = named.search(answer) is not None and _REFUSED.search(answer) is not None
        is_unsupported = error.status_code == 501 or names_output
    match error:
        case ModelRateLimitError():
            kind, message = "rate_limited", "the provider takes no more calls for now"
        case ModelAuthenticationError():
            kind, message = "authentication", "the provider does not accept the key"
        case ModelHTTPError(status_code=status) if is_unsupported:
            return _UnsupportedOutputError(f"http_{status}", f"{_NOT_ACCEPTED}: {output}` (status {status})")
        case ModelHTTPError(status_code=status):
            kind, message = f"http_{status}", f"the provider answered with status {status}"
        case ModelConnectionError():
            kind, message = "connection", f"the provider could not be reached, or the connection broke{tls}"
        case _:
            kind, message = "provider_error", "the provider answered with an error"
    return JudgeCallError(kind, message, retry_after_s=error.retry_after)

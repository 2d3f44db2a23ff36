"""The client of real providers: with the library's test model, and against an endpoint on a real socket."""

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.certificates import certificates
from tests.judge.stub import Manner, Stub, stub
from tests.judge.support import MAYBE, YES, question
from tests.wire.support import free_port
from toolgauge.judge.inquiry import Exchange, Request
from toolgauge.judge.provider import ProviderClient, open_client
from toolgauge.model.errors import ConfigError, JudgeCallError
from toolgauge.model.json import JsonObject


@asynccontextmanager
async def client(url: str) -> AsyncGenerator[ProviderClient]:
    opened = open_client(
        model="openai:gpt-4.1-mini", base_url=url, api_key="sk-key", max_output_tokens=50, temperature=0
    )
    try:
        yield opened
    finally:
        await opened.close()
        await opened.close()


async def failure(serving: Stub) -> JudgeCallError:
    async with client(serving.url) as asking:
        with pytest.raises(JudgeCallError) as raised:
            async with asyncio.timeout(60):
                await asking.ask(Request(question=question("a secret prompt")))
    return raised.value


async def test_a_question_goes_out_as_one_request_and_comes_back_as_a_verdict():
    async with stub(YES) as serving, client(serving.url) as asking:
        reply = await asking.ask(Request(question=question("Was `find` right?")))
    assert (reply.verdict, reply.problem, reply.input_tokens, reply.output_tokens) == (YES, None, 120, 12)
    (sent,) = serving.requests
    assert sent["model"] == "gpt-4.1-mini"
    assert sent["messages"] == [
        {"role": "system", "content": "Judge."},
        {"role": "user", "content": "Was `find` right?"},
    ]
    (tool,) = tools(sent)
    assert tool["name"] == "verdict"
    assert "authorization: bearer sk-key" in serving.headers[0].lower()


def tools(sent: JsonObject) -> list[JsonObject]:
    offered = sent["tools"]
    assert isinstance(offered, list)
    return [tool["function"] for tool in offered if isinstance(tool, dict) and isinstance(tool["function"], dict)]


async def test_asking_again_goes_on_in_the_same_conversation():
    async with stub(MAYBE, YES) as serving, client(serving.url) as asking:
        first = await asking.ask(Request(question=question()))
        exchange = Exchange(reply=first, problem="score: 'Maybe' is not one of ['Yes', 'No']")
        second = await asking.ask(Request(question=question(), exchanges=(exchange,)))
    assert second.verdict == YES
    messages = serving.requests[1]["messages"]
    assert isinstance(messages, list)
    roles = [message["role"] for message in messages if isinstance(message, dict)]
    assert roles == ["system", "user", "assistant", "tool"]
    assert "Maybe" in str(messages[3])


@pytest.mark.parametrize(
    ("manner", "verdict", "problem"),
    [
        ("text", YES, None),
        ("text", "no object", "give the verdict by calling `verdict`"),
        ("two", YES, "give one verdict, not several"),
        ("wrong_tool", YES, "there is no tool but `verdict`"),
        ("verdict", "{not json", "the verdict is not valid JSON"),
        ("verdict", '{"score": 1e400}', "the verdict is not valid JSON"),
        ("verdict", '{"reason": "\\ud800"}', "the verdict is not valid JSON"),
    ],
)
async def test_a_reply_that_holds_no_verdict_says_what_is_wrong(
    manner: Manner, verdict: str | JsonObject, problem: str | None
):
    async with stub(verdict, manner=manner) as serving, client(serving.url) as asking:
        reply = await asking.ask(Request(question=question()))
        assert reply.problem == problem
        # Asking again must be possible after any of them.
        serving.manner = "verdict"
        serving.verdicts = [YES]
        again = await asking.ask(Request(question=question(), exchanges=(Exchange(reply=reply, problem="again"),)))
    assert again.verdict == YES


@pytest.mark.parametrize(
    ("manner", "error"),
    [
        ("die", "connection"),
        ("garbage", "provider_error"),
        ("huge", "response_too_large"),
        ("gzip", "invalid_response"),
        ("limited", "rate_limited"),
        ("broken", "http_500"),
    ],
)
async def test_a_failure_is_plainly_claimed_by_its_kind_and_quotes_nothing(manner: Manner, error: str):
    async with stub(YES, manner=manner) as serving:
        failed = await failure(serving)
    assert failed.error_type == error
    assert failed.retry_after_s == (1.0 if manner == "limited" else None)
    assert not any(word in failed.message for word in ("secret", "sk-key", "quoted"))
    assert len(serving.requests) == 1


async def test_nobody_at_the_address_is_a_failed_connection():
    failed = await failure(Stub([YES], port=free_port()))
    assert failed.error_type == "connection"


async def test_a_certificate_that_is_not_accepted_is_named(tmp_path: Path):
    made = certificates(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(made.server_cert, made.server_key)
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with server, client(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1") as asking:
        with pytest.raises(JudgeCallError, match="its certificate is from an issuer that is not trusted") as raised:
            await asking.ask(Request(question=question("a secret prompt")))
    assert raised.value.error_type == "connection"


@pytest.mark.parametrize("manner", ["hang", "drip"])
async def test_a_call_that_never_ends_can_be_given_up(manner: Manner):
    async with stub(YES, manner=manner) as serving, client(serving.url) as asking:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await asking.ask(Request(question=question()))
        serving.manner = "verdict"
        assert (await asking.ask(Request(question=question()))).verdict == YES


async def test_neither_prompt_nor_key_is_logged(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG):
        async with stub(YES) as serving, client(serving.url) as asking:
            await asking.ask(Request(question=question("a secret prompt")))
    logged = " ".join(record.getMessage() for record in caplog.records)
    assert "secret" not in logged
    assert "sk-key" not in logged
    assert "HTTP Request" not in logged


@pytest.mark.parametrize(
    ("model", "words"),
    [("nobody:gpt", "`judge.model` cannot be used"), ("cohere:command", "needs a package that is not installed")],
)
def test_a_model_that_cannot_be_had_is_an_error_at_the_start(model: str, words: str):
    with pytest.raises(ConfigError, match=words):
        open_client(model=model, base_url=None, api_key="sk-key", max_output_tokens=50, temperature=None)

"""How a verdict is asked for: what providers accept is found once, and models that write prose are understood."""

import json
import re
from collections.abc import Sequence

import pytest

from tests.judge.stub import Manner, Stub, stub
from tests.judge.support import FORM, MAYBE, YES, RightTool, inquiry, question, run
from toolgauge.export.redact import Redactor
from toolgauge.judge.inquiry import Request
from toolgauge.judge.judges import JudgeModel, Judges
from toolgauge.judge.provider import ProviderClient, open_client
from toolgauge.judge.settings import JudgeSettings, Output
from toolgauge.model.errors import JudgeCallError
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.outcomes import Errored, Outcome, Scored
from toolgauge.selfmetrics import JudgeMetrics
from toolgauge.settings import SECOND

NO_TOOLS = (400, '{"error": {"message": "registry.ollama.ai/library/gemma:2b does not support tools"}}')
NO_JSON = (400, '{"error": {"message": "response_format json_object is not supported by this model"}}')


def client(serving: Stub, output: Output | None = None) -> ProviderClient:
    return open_client(
        model="stub", base_url=serving.url, api_key=None, max_output_tokens=50, temperature=None, output=output
    )


async def verdicts(asking: ProviderClient, times: int = 1) -> list[Json]:
    replies = [await asking.ask(Request(question=question())) for _ in range(times)]
    await asking.close()
    return [reply.verdict for reply in replies]


def outputs(requests: Sequence[JsonObject]) -> list[str]:
    """What each request asked for."""
    return ["tool" if "tools" in sent else "json" if "response_format" in sent else "text" for sent in requests]


@pytest.mark.parametrize(
    "rejection",
    [
        NO_TOOLS,
        (400, '{"object": "error", "message": "\\"auto\\" tool choice requires --enable-auto-tool-choice to be set"}'),
        (500, '{"error": {"code": 500, "message": "tools param requires --jinja flag", "type": "server_error"}}'),
        (422, '{"detail": [{"type": "extra_forbidden", "loc": ["body", "tools"], "msg": "Extra inputs"}]}'),
        (400, '{"error": {"message": "`tool_choice` is not supported for this model"}}'),
        (501, ""),
    ],
)
async def test_a_provider_without_tools_is_asked_for_json_and_only_once_for_a_tool(rejection: tuple[int, str]):
    async with stub(YES, manner="text") as serving:
        serving.rejects = {"tools": rejection}
        assert await verdicts(client(serving), 3) == [YES, YES, YES]
    assert outputs(serving.requests) == ["tool", "json", "json", "json"]


async def test_a_provider_without_tools_and_json_is_asked_in_plain_text():
    async with stub("The user asked for it.\nscore: yes", manner="prose") as serving:
        serving.rejects = {"tools": NO_TOOLS, "response_format": NO_JSON}
        assert await verdicts(client(serving), 2) == [YES, YES]
    assert outputs(serving.requests) == ["tool", "json", "text", "text"]
    assert instructions(serving.requests[1]).endswith(json.dumps(FORM))
    assert instructions(serving.requests[2]) == (
        "Judge.\n\nReply in plain text. End with one line that holds only `score: ` and one of Yes, No."
    )


def instructions(sent: JsonObject) -> str:
    match sent["messages"]:
        case [{"role": "system", "content": str(text)}, *_]:
            return text
        case messages:
            raise AssertionError(messages)


@pytest.mark.parametrize("output", ["tool", "json", "text"])
async def test_the_output_that_is_configured_is_the_only_one(output: Output):
    async with stub(YES, manner="text") as serving:
        assert await verdicts(client(serving, output)) == [YES]
    assert outputs(serving.requests) == [output]


async def test_a_configured_output_that_is_rejected_is_an_error_that_names_it():
    async with stub(YES) as serving:
        serving.rejects = {"tools": NO_TOOLS}
        asking = client(serving, "tool")
        with pytest.raises(JudgeCallError, match=r"judge\.output") as raised:
            await asking.ask(Request(question=question()))
        await asking.close()
    assert (raised.value.error_type, len(serving.requests)) == ("http_400", 1)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, '{"error": {"message": "maximum context length is 4096 tokens"}}'),
        (401, '{"error": {"message": "tools are not supported with this key"}}'),
        (404, '{"error": {"message": "model not found"}}'),
        (429, '{"error": {"message": "too many tool calls: not allowed"}}'),
    ],
)
async def test_another_failure_does_not_change_the_output(status: int, said: str):
    async with stub(YES) as serving:
        serving.rejects = {"tools": (status, said)}
        asking = client(serving)
        with pytest.raises(JudgeCallError):
            await asking.ask(Request(question=question()))
        serving.rejects = {}
        assert await verdicts(asking) == [YES]
    assert outputs(serving.requests) == ["tool", "tool"]


async def test_an_output_is_only_remembered_once_it_was_answered():
    async with stub(YES) as serving:
        # A firewall that rejects everything, in words that sound like a missing feature.
        serving.rejects = {"messages": (400, '{"error": "tool and json schema content is not supported"}')}
        asking = client(serving)
        with pytest.raises(JudgeCallError):
            await asking.ask(Request(question=question()))
        serving.rejects = {}
        assert await verdicts(asking) == [YES]
    assert outputs(serving.requests) == ["tool", "json", "text", "tool"]


async def judged(serving: Stub, output: Output | None = None, settings: JudgeSettings | None = None) -> Outcome:
    """Ask one question with everything that stands between it and the provider."""
    settings = settings or JudgeSettings(model="stub", base_url=serving.url, timeout=60 * SECOND)
    metrics = JudgeMetrics(MetricRegistry())
    asking = client(serving, output)
    redact = Redactor(False).content
    judges = Judges(asking, JudgeModel(asking, settings, metrics, redact=redact, clock=lambda: 0.0), settings, metrics)
    await judges.start()
    of = inquiry(RightTool(), run("find"))
    judges.put(of.trajectory, (of,))
    await judges.drain(60)
    await judges.close()
    (answers,) = judges.take()
    (((_, outcome),),) = [judged for _, judged in answers.answers]
    return outcome


YES_SCORE = Scored(value=1.0, explanation="the judge said Yes")
NO_SCORE = Scored(value=0.0, explanation="the judge said No")


# As small models wrote them: Llama 3.2 1B, Qwen 2.5 0.5B, Gemma 2 2B, Phi 3 mini, SmolLM2 and DeepSeek R1 distilled.
@pytest.mark.parametrize(
    ("output", "reply", "outcome"),
    [
        (None, "Based on the conversation, the tool was right.\n\n**Answer: Yes**", YES_SCORE),
        ("text", "<think>\nThe user wants Rome. No other tool? No.\n</think>\n\nYes", YES_SCORE),
        (None, 'The city was made up.\n```json\n{\n    "score": "NO"\n}\n```', NO_SCORE),
        (None, "Yes, but the date was made up.", None),
        ("text", '{"score": "Yes" or "No"}', None),
        (None, '{"score": "<Yes or No>"}', None),
        ("text", '{"score": true}', None),
        (None, '{"score": "Yes"}\n{"score": "No"}', None),
        ("text", '{"score": "Yes"}\n\nCorrection: the answer is No.', None),
        (None, "\u200b\ufeff", None),
    ],
)
async def test_a_reply_of_a_small_model_is_a_score_only_where_it_states_one(
    output: Output | None, reply: str, outcome: Outcome | None
):
    async with stub(reply, manner="prose") as serving:
        got = await judged(serving, output)
    if outcome is not None:
        assert (got, len(serving.requests)) == (outcome, 1)
        return
    assert isinstance(got, Errored)
    assert got.error_type == "invalid_verdict"
    assert re.search("; it answered: |; its answer was empty", got.message)
    assert len(serving.requests) == 3


@pytest.mark.parametrize(
    ("manner", "reply", "shown"),
    [
        ("prose", "one\ntwo\x00\x1b[31m\u202ethree", "one two [31m three"),
        ("prose", "my key is sk-0123456789abcdef0123", "my key is [key]"),
        ("prose", "token: abcdef", "token: [masked]"),
        ("prose", "x" * 1000, "x" * 197 + "..."),
        ("prose", "sk-" + "a" * 9000, "[key]"),
        ("verdict", MAYBE, "score: Maybe"),
        (
            "prose",
            '{"score": 7, "reason": "It paid ' + "twice " * 40 + '"}',
            "It paid " + ("twice " * 40)[:189] + "...",
        ),
        ("prose", '```json\n{"score": 7, "reason": "It paid \\"twice\\", and', 'It paid "twice", and'),
        ("verdict", "{not json", "{not json"),
    ],
)
async def test_the_rejected_answer_is_shown_short_and_without_secrets(manner: Manner, reply: Json, shown: str):
    async with stub(reply, manner=manner) as serving:
        got = await judged(serving)
    assert isinstance(got, Errored)
    assert got.message.endswith(f"; it answered: {shown}")
    assert len(got.message) < 600


async def test_an_answer_that_was_cut_is_no_verdict():
    async with stub("Score: Yes", manner="cut") as serving:
        got = await judged(serving)
    assert isinstance(got, Errored)
    assert "the answer was cut at `judge.max_output_tokens`" in got.message

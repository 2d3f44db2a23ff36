"""Recorded spans of real producers, a judge on loopback, a destination: what is asked, and where the verdicts arrive.

The model that the producers ran with mailed user 7 the weather of their city, in three calls one after the other.
"""

import asyncio
import json
from pathlib import Path

import pytest

from tests.judge.stub import Stub, stub
from tests.wire.destination import Destination, attributes, receiving
from tests.wire.support import IN_TEST, LISTEN, SOON, post, recorded, to_http
from toolgauge.model.json import Json, JsonObject
from toolgauge.service.configuration import load_configuration
from toolgauge.service.service import Service

CRITERIA = """\
criteria:
- {name: justified, evaluator: tool_selection_accuracy}
- {name: said-so, evaluator: tool_parameter_accuracy}
- {name: faithful, evaluator: faithfulness, pass_at: 0.7}
"""
# One after the other: a criterion's calls in their order, then the next criterion. The id of the user stands in the
# prompt, so that nobody has to be asked whether it was made up.
VERDICTS = ("Yes", "No", "Yes", "Yes", "No", "Generally Yes")

ASKED: JsonObject = {"user": "Mail user 7 the weather of their city."}
USER: JsonObject = {"call": "get_user", "arguments": {"user_id": 7}}
FOUND: JsonObject = {"result": {"user_id": 7, "name": "Zoë Ågren", "city": "København"}}
WEATHER: JsonObject = {"call": "get_weather", "arguments": {"city": "København", "unit": "celsius"}}
COLD: JsonObject = {"result": {"city": "København", "temp": 11.5, "unit": "celsius"}}
MAIL: JsonObject = {
    "call": "send_email",
    # The address is masked before it leaves.
    "arguments": {"to": "[email]", "subject": "Vejret i København", "body": "11.5 °C, Zoë Ågren"},
}
SENT: JsonObject = {"result": {"status": "sent", "message_id": "m-001"}}


async def judged(folder: Path, framework: str, scenario: str, serving: Stub, destination: Destination, last: str):
    """Send a recording to a service and wait for the event of the criterion that is judged last."""
    file = folder / "config.yaml"
    file.write_text(CRITERIA)
    judge = f'judge={{model: stub, base_url: "{serving.url}", max_concurrent: 1}}'
    settings = [*LISTEN, *SOON, *IN_TEST, to_http(destination.http_port), judge, "events=all"]
    service = Service(*load_configuration([str(file)], settings))
    await service.start()
    for body in recorded(framework, scenario):
        assert await asyncio.to_thread(post, service.receivers[1].port, body) == (200, b"")
    async with asyncio.timeout(120):
        while not any(attributes(event)["gen_ai.evaluation.name"] == last for event in destination.events()):
            await asyncio.sleep(0.05)
    assert not await service.stop()


def quoted(request: JsonObject) -> dict[str, list[Json]]:
    """Take what a judge was asked apart: the lines of each quotation by its title."""
    match request["messages"]:
        case [*_, {"role": "user", "content": str(prompt)}]:
            quotations = [part.splitlines() for part in prompt.split("\n\n") if part.startswith("<<<")]
        case other:
            raise AssertionError(other)
    return {
        head.removeprefix("<<<").rpartition(" ")[0]: [json.loads(line) for line in lines]
        for head, *lines, _end in quotations
    }


@pytest.mark.parametrize(
    ("framework", "scenario"),
    [
        ("pydantic-ai", "sequence3"),
        ("openai-agents", "chatapi_sequence3"),
    ],
)
async def test_a_judge_is_shown_what_was_known_then_and_its_verdicts_arrive(
    tmp_path: Path, framework: str, scenario: str
):
    verdicts: list[JsonObject] = [{"reasoning": "because", "score": verdict} for verdict in VERDICTS]
    with receiving() as destination:
        async with stub(*verdicts) as serving:
            await judged(tmp_path, framework, scenario, serving, destination, "faithful")
        events = [(attributes(event), event.span_id.hex()) for event in destination.events()]
    asked = [quoted(request) for request in serving.requests]

    before: list[list[Json]] = [[ASKED], [ASKED, USER | FOUND], [ASKED, USER | FOUND, WEATHER | COLD]]
    assert [one["CONVERSATION SO FAR"] for one in asked] == [
        *before,
        *before[1:],
        [ASKED, USER | FOUND, WEATHER | COLD, MAIL | SENT],
    ]
    assert [one.get("CALL TO JUDGE") for one in asked] == [[USER], [WEATHER], [MAIL], [WEATHER], [MAIL], None]
    assert asked[-1]["RESPONSE TO JUDGE"] == [{"assistant": "Sent, message m-001."}]

    truth = json.loads((Path(__file__).parent.parent / "corpus" / framework / f"{scenario}.truth.json").read_text())
    spans = [call["tool_span_ids"] for call in truth["traces"][0]["tool_calls"]]
    for name, values in (("justified", [1.0, 0.0, 1.0]), ("said-so", [1.0, 1.0, 0.0])):
        of_calls = [(said, span) for said, span in events if said["gen_ai.evaluation.name"] == name]
        assert [said["gen_ai.tool.name"] for said, _ in of_calls] == ["get_user", "get_weather", "send_email"]
        assert [said["gen_ai.evaluation.score.value"] for said, _ in of_calls] == values
        # What is known of this recording of OpenAI's agents leaves the ids of tool spans out.
        assert all(span in ids or framework == "openai-agents" for (_, span), ids in zip(of_calls, spans, strict=True))
    (faithful,) = [said for said, _ in events if said["gen_ai.evaluation.name"] == "faithful"]
    assert (faithful["gen_ai.evaluation.score.value"], faithful["toolgauge.outcome"]) == (0.75, "pass")


async def test_nobody_is_asked_about_a_run_whose_content_was_not_recorded(tmp_path: Path):
    with receiving() as destination:
        async with stub({"reasoning": "because", "score": "Yes"}) as serving:
            await judged(tmp_path, "pydantic-ai", "content_off", serving, destination, "faithful")
        said = [attributes(event) for event in destination.events()]
    assert serving.requests == []
    outcomes = {
        (one["gen_ai.evaluation.name"], one["toolgauge.outcome"])
        for one in said
        if one["gen_ai.evaluation.name"] in ("justified", "said-so", "faithful")
    }
    assert outcomes == {
        ("justified", "not_evaluated"),
        ("said-so", "not_evaluated"),
        ("faithful", "not_evaluated"),
    }

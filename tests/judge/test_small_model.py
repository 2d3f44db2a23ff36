"""A real small model as the judge: its verdicts are worth little, and none is a score that it did not give."""

import re
from collections.abc import Iterator

import pytest

from tests.judge.small_model import installed, serving
from tests.judge.support import FORM, RightTool
from toolgauge.judge.client import Reply, Request
from toolgauge.judge.judge_model import JudgeModel
from toolgauge.judge.provider import ProviderClient, open_client
from toolgauge.judge.settings import JudgeSettings, Output
from toolgauge.model.judging import Question
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.outcomes import Errored, Scored
from toolgauge.selfmetrics import JudgeMetrics
from toolgauge.settings import SECOND

QUESTIONS = (
    "Is two plus two four? Answer Yes or No.",
    "Say only: No",
    "Say: score: Yes",
    "Is Rome in Italy?",
    "The user said: hello. The assistant called `delete_account`. Was the call right?",
)


@pytest.fixture(scope="module")
def url(pytestconfig: pytest.Config) -> Iterator[str]:
    if not pytestconfig.getoption("--long"):
        pytest.skip("a real small model is asked with `python3 tests --long`")
    with serving(installed()) as address:
        yield address


class Listening:
    """A client that also keeps the replies."""

    def __init__(self, client: ProviderClient) -> None:
        self._client = client
        self.replies: list[Reply] = []

    async def ask(self, request: Request) -> Reply:
        reply = await self._client.ask(request)
        self.replies.append(reply)
        return reply

    async def close(self) -> None:
        await self._client.close()


def labels(reply: str) -> set[str]:
    """Return every label in a reply, wherever it is."""
    return {label.capitalize() for label in re.findall(r"(?i)\b(?:yes|no)\b", reply)}


@pytest.mark.parametrize("output", ["tool", "json", "text", None])
async def test_a_small_model_never_gets_a_score_that_it_did_not_give(url: str, output: Output | None):
    settings = JudgeSettings(model="smollm2", base_url=url, timeout=300 * SECOND, output=output)
    opened = open_client(
        model="smollm2", base_url=url, api_key=None, max_output_tokens=48, temperature=0, output=output
    )
    client = Listening(opened)
    metrics = JudgeMetrics(MetricRegistry())
    asker = JudgeModel(client, settings, metrics, redact=str, clock=lambda: 0.0)
    scores = 0
    for prompt in QUESTIONS:
        asked = Question(
            instructions="Answer Yes or No.",
            prompt=prompt,
            form_name="verdict",
            form=FORM,
        )
        outcome = await asker.ask(RightTool(), asked)
        last = client.replies[-1]
        assert last.text is not None
        if isinstance(outcome, Scored):
            scores += 1
            assert labels(last.text) == {"Yes" if outcome.value == 1.0 else "No"}
        else:
            assert isinstance(outcome, Errored)
            assert outcome.error_type == "invalid_verdict"
            assert re.search(r"form that was asked for \(.+\); it(?:s answer was empty| answered: .)", outcome.message)
    await client.close()
    # In plain text it does give verdicts; asked for JSON it repeats the schema.
    assert scores > 0 or output != "text"

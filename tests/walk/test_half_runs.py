"""Half a run through the whole pipeline: what is said of it, and what is never said."""

from tests.walk.support import CORPUS, Walk, attributes
from toolgauge.otlp.request import read_request

# What looks at a call alone, and what judges more.
OF_CALLS, OF_THE_WHOLE = "default.arguments_schema", "default.tool_use"


def outcomes(walk: Walk, criterion: str) -> list[tuple[object, object]]:
    """The outcomes of a criterion, with the reason of those that are none."""
    found = [attributes(event) for event in walk.events()]
    return sorted(
        (one["toolgauge.outcome"], one.get("toolgauge.not_evaluated.reason"))
        for one in found
        if one["gen_ai.evaluation.name"] == criterion
    )


def pass_unread(walk: Walk, body: bytes) -> None:
    request = read_request("traces", body, walk.now_ns)
    walk.pipeline.admission.admit(request)
    assert walk.pipeline.pass_unread(request, walk.now_ns)


def files(framework: str, scenario: str) -> list[bytes]:
    return [file.read_bytes() for file in sorted((CORPUS / framework).glob(f"{scenario}*.otlp.pb"))]


def test_of_what_was_open_while_requests_passed_unread_calls_seen_whole_are_scored():
    walk = Walk("events=all")
    for body in files("strands", "tool_error"):
        walk.send(body)
    pass_unread(walk, files("mcp-python", "")[0])
    walk.wait(60)
    assert outcomes(walk, OF_CALLS) == [("pass", None)]
    assert outcomes(walk, OF_THE_WHOLE) == [("not_evaluated", "overload")]

"""From spans to a regression, and its cause."""

from opentelemetry.proto.trace.v1.trace_pb2 import Status

from tests.walk.shapes import ERROR, request, run, span, tool
from tests.walk.support import Walk


def conversation(number: int, model: str, *, fails: bool) -> bytes:
    """Return the spans of a run with one call of a model and one of a tool."""
    trace, status = f"t{number}", ERROR if fails else Status.STATUS_CODE_UNSET
    made = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "large", "gen_ai.response.model": model}
    spans = (
        span("chat", made, id="chat", trace=trace),
        tool("find_order", trace=trace, status=status, more={"error.type": "timeout"} if fails else {}),
    )
    return request(run(trace=trace), *spans).SerializeToString()


def test_an_alarm_names_the_model_that_changed() -> None:
    walk = Walk("watch.baseline_min=50")
    for number in range(1, 201):
        is_new = number > 150
        walk.send(conversation(number, "large-06" if is_new else "large-05", fails=number % (2 if is_new else 15) == 0))
        walk.wait(10)
    began = next(each for each in walk.regressions if each.stream.tool == "find_order")
    assert [change.after for change in began.causes[0].changes] == ["large-06"]
    assert began.causes[0].changes[0].property == "gen_ai.response.model"


def test_an_agent_that_stops_calling_tools_is_noticed_by_one_stream() -> None:
    walk = Walk("watch.baseline_min=50", "watch.behaviour=off")
    made = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "large"}
    for number in range(1, 201):
        trace = f"t{number}"
        called = (tool("find_order", trace=trace),) if number <= 100 else ()
        walk.send(request(run(trace=trace), span("chat", made, id="chat", trace=trace), *called).SerializeToString())
        walk.wait(10)
    assert walk.watcher is not None
    streams = {(each.stream.criterion, each.stream.tool) for each in walk.watcher.statuses()}
    assert ("default.tool_use", None) in streams
    assert "default.coverage" not in {criterion for criterion, _ in streams}
    assert [(each.phase, each.stream.criterion) for each in walk.regressions] == [("began", "default.tool_use")]

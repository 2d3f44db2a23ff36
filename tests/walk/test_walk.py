"""From the bytes of a request to what leaves: spans with scores, scorecards, events, and books that balance."""

# pyright: reportUnknownMemberType=false

from collections.abc import Iterator
from contextlib import suppress
from typing import ClassVar

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from pydantic import BaseModel

from tests.walk.support import CORPUS, Walk, attributes, key_value, spans_of
from toolgauge.model.delivery import Invalid, Refused
from toolgauge.model.expected import Expected
from toolgauge.model.outcomes import Level
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.criterion import Criterion

FRAMEWORKS = ("openinference-langgraph", "otel-util-genai")


def identity(span: Span) -> tuple[bytes, bytes]:
    return span.trace_id, span.span_id


@pytest.mark.parametrize("annotate", ["both", "hold", "scorecard", "off"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_span_arrives_once_and_unchanged_but_for_added_attributes(framework: str, annotate: str):
    walk = Walk(f"annotate={annotate}")
    sent: list[Span] = []
    for scenario in sorted({file.name.split(".")[0] for file in (CORPUS / framework).glob("*.truth.json")}):
        walk.send_folder(framework, scenario)
        sent.extend(spans_of(framework, scenario))
    walk.wait(1000)
    arrived = {identity(span): span for span in walk.arrived()}
    assert len(walk.arrived()) == len(sent)
    for span in sent:
        found = arrived[identity(span)]
        kept = [attribute for attribute in found.attributes if not attribute.key.startswith("toolgauge.")]
        del found.attributes[:]
        found.attributes.extend(kept)
        assert found == span
    assert walk.books()["held"] == 0
    assert walk.books()["balance"] == 0


def test_a_failed_tool_call_carries_its_score_and_the_scorecard_tells_of_it():
    walk = Walk()
    walk.send_folder("pydantic-ai", "tool_error")
    walk.wait(20)
    (tool,) = [span for span in walk.arrived() if "gen_ai.tool.call.id" in attributes(span)]
    scored = attributes(tool)
    assert scored["toolgauge.eval.default.tool_success.score"] == 0.0
    assert scored["toolgauge.eval.default.tool_success.outcome"] == "fail"
    assert scored["toolgauge.eval.default.known_tool.score"] == 1.0
    (scorecard,) = walk.scorecards()
    assert scorecard.name == "toolgauge.scorecard"
    assert scorecard.trace_id == tool.trace_id
    assert tool.span_id in {link.span_id for link in scorecard.links}
    failed = [event for event in walk.events() if attributes(event)["toolgauge.outcome"] == "fail"]
    of_run, event = failed
    assert attributes(of_run)["gen_ai.evaluation.name"] == "default.run_completed"
    assert event.event_name == "gen_ai.evaluation.result"
    assert (event.trace_id, event.span_id) == (tool.trace_id, tool.span_id)
    assert attributes(event)["gen_ai.evaluation.name"] == "default.tool_success"


def test_a_request_without_agent_spans_goes_on_as_the_same_bytes_object():
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    spans.add(trace_id=b"t" * 16, span_id=b"s" * 8, name="SELECT").attributes.append(key_value("db.system", "x"))
    body = request.SerializeToString()
    walk = Walk()
    walk.send(body)
    (outgoing,) = walk.bag.taken
    assert outgoing.body is body


def test_a_span_that_was_held_too_long_goes_on_without_a_score():
    walk = Walk("hold.timeout=2s", "assemble.run_end_grace=10s")
    walk.send_folder("pydantic-ai", "tool_error")
    assert walk.books()["held"] > 0
    walk.wait(3)
    assert walk.books()["held"] == 0
    assert not any(key.startswith("toolgauge.") for span in walk.arrived() for key in attributes(span))
    walk.wait(20)
    assert len(walk.scorecards()) == 1


def test_spans_that_come_twice_are_forwarded_twice_and_scored_once():
    walk = Walk()
    walk.send_folder("pydantic-ai", "tool_error")
    walk.send_folder("pydantic-ai", "tool_error")
    walk.wait(20)
    walk.send_folder("pydantic-ai", "tool_error")
    walk.wait(60)
    assert len(walk.arrived()) == 3 * len(spans_of("pydantic-ai", "tool_error"))
    assert len(walk.scorecards()) == 1
    assert walk.books()["balance"] == 0
    assert sum(cell.count for cell in walk.metrics.late.cells.values()) > 0


def test_a_full_queue_refuses_the_request_and_loses_nothing():
    walk = Walk()
    walk.bag.room = 0
    body = (CORPUS / "pydantic-ai" / "tool_error.otlp.pb").read_bytes()
    answer = walk.pipeline.consume("traces", body, walk.now_ns)
    assert isinstance(answer, Refused)
    assert walk.books() == {"received": 3, "refused": 3, "dropped": 0, "queued": 0, "held": 0, "balance": 0}


def test_released_spans_stay_held_while_the_queue_is_full():
    walk = Walk()
    walk.send_folder("pydantic-ai", "tool_error")
    walk.bag.room = 0
    walk.wait(60)
    assert walk.books()["held"] > 0
    assert walk.books()["balance"] == 0
    walk.bag.room = 100
    walk.wait(1)
    assert walk.books()["held"] == 0
    assert walk.books()["balance"] == 0
    assert any(key.startswith("toolgauge.eval.") for span in walk.arrived() for key in attributes(span))


def test_our_own_scorecards_pass_through_without_being_scored_again():
    first = Walk()
    first.send_folder("pydantic-ai", "tool_error")
    first.wait(20)
    own = [outgoing.body for outgoing in first.bag.taken if outgoing.own and outgoing.signal == "traces"]
    second = Walk()
    for body in own:
        second.send(body)
    second.wait(1000)
    assert len(second.scorecards()) == len(first.scorecards())
    assert not [outgoing for outgoing in second.bag.taken if outgoing.own]


def test_an_evaluator_that_raises_costs_nothing_but_its_own_result():
    class Raises(BaseModel):
        version: ClassVar[str] = "1"
        level: ClassVar[Level] = "trajectory"

        def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
            raise KeyError(f"secret of {trajectory.trace_id} {expected}")
            yield None

    broken = Criterion(name="broken", evaluator_name="raises", evaluator=Raises(), revision="0" * 12)
    walk = Walk(criteria=(broken,))
    walk.send_folder("pydantic-ai", "tool_error")
    walk.wait(20)
    assert len(walk.arrived()) == len(spans_of("pydantic-ai", "tool_error"))
    (event,) = walk.events()
    assert attributes(event)["toolgauge.outcome"] == "error"
    assert attributes(event)["error.type"] == "KeyError"
    assert "secret" not in str(event)


def test_when_memory_is_short_open_runs_are_given_up_unscored_and_their_spans_go_on():
    walk = Walk()
    walk.send_folder("pydantic-ai", "tool_error")
    assert walk.pipeline.admission.spans_held > 0
    assert not walk.pipeline.is_empty
    walk.pipeline.shed()
    walk.wait(0.5)
    assert walk.pipeline.is_empty
    assert len(walk.arrived()) == len(spans_of("pydantic-ai", "tool_error"))
    assert walk.books()["balance"] == 0
    reasons = {attributes(record).get("toolgauge.not_evaluated.reason") for record in walk.events()}
    assert reasons <= {None}
    (card,) = walk.scorecards()
    assert attributes(card)["toolgauge.closed_because"] == "memory"
    assert not [key for span in walk.arrived() for key in attributes(span) if key.startswith("toolgauge.")]


def test_when_memory_is_short_the_oldest_are_given_up_until_half_is_left():
    walk = Walk()
    scenarios = ("bad_args", "tool_error", "one_call")
    for scenario in scenarios:
        walk.send_folder("pydantic-ai", scenario)
    assert walk.metrics.traces_open.current() == {(): 3}
    walk.pipeline.shed()
    assert walk.metrics.traces_open.current() == {(): 2}
    walk.wait(60)
    because = {card.trace_id: attributes(card)["toolgauge.closed_because"] for card in walk.scorecards()}
    assert [because[spans_of("pydantic-ai", scenario)[0].trace_id] for scenario in scenarios] == [
        "memory",
        "run_ended",
        "run_ended",
    ]


def test_senders_are_refused_while_memory_is_short():
    memory = [True]
    walk = Walk(has_memory=lambda _size_bytes: memory[0])
    walk.send_folder("pydantic-ai", "tool_error")
    memory[0] = False
    body = (CORPUS / "pydantic-ai" / "one_call.otlp.pb").read_bytes()
    assert walk.pipeline.consume("traces", body, walk.now_ns) == Refused("memory is short")
    logs = (CORPUS / "codex-cli" / "coding.01.logs.otlp.pb").read_bytes()
    assert walk.pipeline.consume("logs", logs, walk.now_ns) == Refused("memory is short")
    assert walk.metrics.spans.value(("refused", "memory", "")) == len(spans_of("pydantic-ai", "one_call"))
    assert walk.books()["balance"] == 0


def test_what_is_open_at_the_end_is_scored_and_released():
    walk = Walk()
    walk.send_folder("pydantic-ai", "tool_error")
    walk.pipeline.close(walk.now_ns)
    while walk.pipeline.tick(walk.now_ns):
        pass
    walk.pipeline.release()
    walk.pipeline.flush()
    assert walk.books()["held"] == 0
    (scorecard,) = walk.scorecards()
    assert attributes(scorecard)["toolgauge.closed_because"] == "shutdown"
    assert isinstance(walk.pipeline.consume("traces", b"", walk.now_ns), Refused)


@pytest.mark.parametrize("signal", ["traces", "logs"])
def test_a_request_that_is_cut_off_is_invalid(signal: str):
    walk = Walk()
    body = (CORPUS / "pydantic-ai" / "tool_error.otlp.pb").read_bytes()
    answer = walk.pipeline.consume("logs" if signal == "logs" else "traces", body[:-5], walk.now_ns)
    assert isinstance(answer, Invalid)
    assert walk.books()["balance"] == 0


def test_scoring_outlives_a_fault_of_the_watcher():
    class Broken(dict[tuple[str, ...], float]):
        def __setitem__(self, key: tuple[str, ...], value: float) -> None:
            raise RuntimeError("a fault")

    walk = Walk("watch.conversation_idle=1s")
    walk.metrics.watch.evidence.cells = Broken()
    for number, scenario in enumerate(("one_call", "tool_error"), 1):
        walk.send_folder("pydantic-ai", scenario)
        for _ in range(40):
            # As the worker survives it.
            with suppress(RuntimeError):
                walk.wait(0.5)
        walk.pipeline.flush()
        assert len(walk.scorecards()) == number
    assert walk.books()["held"] == 0

"""A process that ends without warning, and one that goes on with its journal: the scores are those of one that never ended."""

# pyright: reportUnknownMemberType=false

import zlib
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.captures import Captured, all_captures
from tests.rows import each_row
from tests.walk.support import CORPUS, SECOND, MemoryJournal, Walk, attributes
from toolgauge.config.model import Defaults
from toolgauge.model.delivery import Signal
from toolgauge.service.criteria_factory import default_criteria
from toolgauge.state.ledger import NO_LEDGER

WITH_CONVERSATIONS = "defaults.scope=conversation"
OF_TURNS = [folder for folder, each in all_captures().items() if "multi_turn" in each.scenarios]


def requests(framework: str, scenario: str) -> list[tuple[Signal, bytes]]:
    """The recording, each span in a request of its own."""
    found: list[tuple[Signal, bytes]] = []
    for file in sorted((CORPUS / framework).glob(f"{scenario}*.otlp.pb")):
        if ".logs." in file.name:
            found.append(("logs", file.read_bytes()))
            continue
        whole = ExportTraceServiceRequest.FromString(file.read_bytes())
        for group in whole.resource_spans:
            for scope in group.scope_spans:
                for span in scope.spans:
                    single = ExportTraceServiceRequest()
                    resource = single.resource_spans.add()
                    resource.resource.CopyFrom(group.resource)
                    alone = resource.scope_spans.add()
                    alone.scope.CopyFrom(scope.scope)
                    alone.spans.add().CopyFrom(span)
                    found.append(("traces", single.SerializeToString()))
    return found


def trace_id(body: bytes) -> bytes:
    """Of the first span."""
    return ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0].spans[0].trace_id


def close_all(walk: Walk) -> None:
    """Let hours pass, in steps that show what closes by which rule."""
    for seconds in (1, 6, 25, 900, 700, 700, 40, 40):
        walk.now_ns += seconds * SECOND
        walk.wait(1)


def results(*walks: Walk) -> Counter[tuple[object, ...]]:
    """Evaluation events and scorecards of all processes, without times."""
    keys = (
        "gen_ai.evaluation.name",
        "gen_ai.evaluation.score.value",
        "toolgauge.outcome",
        "gen_ai.evaluation.explanation",
    )
    found: Counter[tuple[object, ...]] = Counter()
    for walk in walks:
        for event in walk.events():
            found[(event.trace_id, event.span_id, *(str(attributes(event).get(key)) for key in keys))] += 1
        for card in walk.scorecards():
            found[("scorecard", card.trace_id, card.parent_span_id)] += 1
    return found


def sent_on(*walks: Walk) -> set[bytes]:
    return {span.span_id for walk in walks for span in walk.arrived()}


def ended_at(framework: str, scenario: str, instant: int, *settings: str) -> tuple[list[Walk], MemoryJournal]:
    """Send a recording to a process that ends after so many requests, and the rest to another.

    Spans that alone open no trace leave the journal when they are delivered: it does not end between them and the first that does.
    """
    journal = MemoryJournal()
    all_requests = requests(framework, scenario)
    first = Walk("events=all", *settings, journal=journal)
    sent = 0
    while sent < instant or (0 < sent < len(all_requests) and not first.pipeline.trajectories_open):
        signal, body = all_requests[sent]
        first.send(body, signal)
        sent += 1
    first.wait(0)
    second = Walk("events=all", *settings, journal=journal)
    second.now_ns = first.now_ns
    second.recover()
    for signal, body in all_requests[sent:]:
        second.send(body, signal)
    close_all(second)
    return [first, second], journal


def assert_no_trace_is_left(framework: str, scenario: str, settings: Sequence[str] = ()) -> None:
    """The process ends at a moment that differs by recording."""
    whole = Walk("events=all", *settings)
    all_requests = requests(framework, scenario)
    for signal, body in all_requests:
        whole.send(body, signal)
    close_all(whole)
    instant = zlib.crc32(f"{framework} {scenario}".encode()) % (len(all_requests) + 1)
    walks, journal = ended_at(framework, scenario, instant, *settings)
    assert results(*walks) == results(whole)
    assert sent_on(*walks) == sent_on(whole)
    assert journal.left() == []


def test_a_process_that_ended_at_any_moment_leaves_no_trace_in_the_scores(few_captured: Captured):
    assert few_captured.failures(assert_no_trace_is_left) == {}


@each_row(
    "folder",
    [name if number % 8 == 0 else pytest.param(name, marks=pytest.mark.long) for number, name in enumerate(OF_TURNS)],
)
def test_nor_does_it_in_the_scores_of_conversations(folder: str):
    assert_no_trace_is_left(folder, "multi_turn", (WITH_CONVERSATIONS,))


def test_a_run_that_closed_long_ago_and_was_not_delivered_is_not_scored_again():
    journal = MemoryJournal()
    first = Walk(journal=journal)
    # A destination that takes nothing: the queue is all that has it.
    first.bag.ledger = NO_LEDGER
    first.send_folder("google-adk", "multi_turn")
    first.wait(60)
    assert len(first.scorecards()) == 4
    second = Walk(journal=journal)
    second.now_ns = first.now_ns + 3600 * SECOND
    second.recover()
    close_all(second)
    assert sent_on(second) == sent_on(first)
    assert [card.span_id for card in second.scorecards()] == [card.span_id for card in first.scorecards()]
    assert journal.left() == []


def test_the_first_runs_of_a_long_conversation_are_not_scored_again():
    (criterion,) = default_criteria(Defaults(scope="conversation"))[:1]
    criteria = (criterion, *default_criteria())
    settings = "assemble.conversation_idle_timeout=2h"
    journal = MemoryJournal()
    first = Walk(settings, criteria=criteria, journal=journal)
    first.send_folder("google-adk", "multi_turn")
    first.wait(60)
    assert [one.scope for one in journal.closed] == ["trace"] * 4
    second = Walk(settings, criteria=criteria, journal=journal)
    second.now_ns = first.now_ns + 3600 * SECOND
    second.recover()
    second.now_ns += 3 * 3600 * SECOND
    second.wait(1)
    assert [one.scope for one in journal.closed] == ["trace"] * 4 + ["conversation"] * 2
    assert journal.left() == []


def test_what_is_read_again_for_conversations_takes_no_room_from_open_runs():
    (criterion,) = default_criteria(Defaults(scope="conversation"))[:1]
    criteria = (criterion, *default_criteria())
    settings = ("assemble.max_open=3", "assemble.conversation_idle_timeout=2h")
    journal = MemoryJournal()
    first = Walk(*settings, criteria=criteria, journal=journal)
    opening, *rest = requests("pydantic-ai", "tool_error")
    first.send(opening[1])
    turns = [body for signal, body in requests("google-adk", "multi_turn") if signal == "traces"]
    for _, bodies in groupby(turns, trace_id):
        for body in bodies:
            first.send(body)
        first.wait(40)
    assert len(journal.closed) == 4
    second = Walk(*settings, criteria=criteria, journal=journal)
    second.now_ns = first.now_ns
    second.recover()
    second.wait(1)
    assert second.scorecards() == []
    for _, body in rest:
        second.send(body)
    second.wait(40)
    assert [attributes(card)["toolgauge.closed_because"] for card in second.scorecards()] == ["run_ended"]

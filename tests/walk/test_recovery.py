"""A process that ends without warning, and one that goes on with its journal: the scores are those of one that never ended."""

# pyright: reportUnknownMemberType=false

from collections import Counter

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.walk.support import CORPUS, SECOND, MemoryJournal, Walk, attributes

SCENARIOS = sorted({(file.parent.name, file.name.split(".")[0]) for file in CORPUS.glob("*/*.otlp.pb")})
WITH_CONVERSATIONS = ("defaults.scope=conversation",)


def requests(framework: str, scenario: str) -> list[tuple[str, bytes]]:
    """The recording, each span in a request of its own."""
    found: list[tuple[str, bytes]] = []
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


def ended_at(
    framework: str, scenario: str, instant: int, pause_s: float, *settings: str
) -> tuple[list[Walk], MemoryJournal]:
    """Send a recording to a process that ends after so many requests, and the rest to another."""
    journal = MemoryJournal()
    all_requests = requests(framework, scenario)
    first = Walk("events=all", *settings, journal=journal)
    for signal, body in all_requests[:instant]:
        first.send(body, signal)  # pyright: ignore[reportArgumentType]
    first.wait(pause_s)
    second = Walk("events=all", *settings, journal=journal)
    second.now_ns = first.now_ns
    second.recover()
    for signal, body in all_requests[instant:]:
        second.send(body, signal)  # pyright: ignore[reportArgumentType]
    close_all(second)
    return [first, second], journal


@pytest.mark.parametrize("settings", [(), WITH_CONVERSATIONS], ids=["trace", "conversation"])
@pytest.mark.parametrize(("framework", "scenario"), SCENARIOS)
def test_a_process_that_ended_at_any_moment_leaves_no_trace_in_the_scores(
    framework: str, scenario: str, settings: tuple[str, ...]
):
    whole = Walk("events=all", *settings)
    all_requests = requests(framework, scenario)
    for signal, body in all_requests:
        whole.send(body, signal)  # pyright: ignore[reportArgumentType]
    close_all(whole)
    count = len(all_requests)
    for instant in {1, count // 2, count - 1}:
        walks, journal = ended_at(framework, scenario, instant, 0, *settings)
        assert results(*walks) == results(whole)
        assert sent_on(*walks) == sent_on(whole)
        assert journal.left() == []

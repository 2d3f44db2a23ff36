"""Any order and batching of arrival before closing gives the same trajectory, and each call once."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.assemble.support import (
    SECOND_NS,
    agent,
    answered,
    args,
    assembler,
    conversation,
    executed,
    head,
    log,
    model,
    reading,
    requested,
)
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.model.content import Recorded
from toolgauge.model.observations import CallError, MessageSeen, Reading
from toolgauge.model.records import SpanHead
from toolgauge.model.trajectory import Trajectory

Arrival = Reading | SpanHead


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[Arrival], int]:
    """A run of a boss and an expert: what arrives of it, and how many calls it made."""
    has_ids = draw(st.booleans())
    arrivals: list[Arrival] = [
        reading("run", agent("boss"), conversation("talk"), parent="wrapper", start=0, end=1000, service="run"),
        head("wrapper", parent="web"),
        reading("web", attributes=(("tier", "gold"),), start=0, end=1001),
    ]
    calls = 0
    time = 1
    owner = "run"
    for turn in range(draw(st.integers(1, 4))):
        if draw(st.booleans()) and owner == "run":
            owner = "expert"
            arrivals.append(reading("expert", agent("expert"), parent="run", start=time, end=990, service="expert"))
        width = draw(st.integers(1, 3))
        on_log = draw(st.booleans())
        asked = [
            requested(
                draw(st.sampled_from(("look", "book"))),
                args(n=draw(st.integers(0, 2)), turn=turn, place=place),
                id=f"c{turn}.{place}" if has_ids else None,
                position=place,
            )
            for place in range(width)
        ]
        name = f"ask{turn}"
        told = [answered(f"c{turn}.{place}", place) for place in range(width)] if has_ids else []
        arrivals.append(
            reading(
                name,
                model(),
                MessageSeen(role="user", text="go"),
                *([] if on_log else asked),
                parent=owner,
                service=owner,
                start=time,
                end=time + 3,
            )
        )
        if on_log:
            arrivals.append(log(name, *asked, start=time + 3))
        time += 10
        for place in draw(st.permutations(range(width))):
            fate = draw(st.sampled_from(("runs", "fails", "doubled", "never")))
            if fate != "never":
                tool = f"t{turn}.{place}"
                request = asked[place]
                error = CallError(kind="E", message="") if fate == "fails" else None
                arrivals.append(
                    reading(
                        tool,
                        executed(request.name, request.arguments, id=request.call_id, error=error),
                        parent=owner,
                        service=owner,
                        start=time,
                        end=time + 5,
                    )
                )
                if fate == "doubled":
                    arrivals.append(
                        reading(
                            f"{tool}in",
                            executed(request.name, result=Recorded(place)),
                            parent=tool,
                            service=owner,
                            start=time + 1,
                            end=time + 4,
                        )
                    )
            time += draw(st.integers(0, 3))
        time += 10
        arrivals.append(reading(f"next{turn}", model(), *told, parent=owner, service=owner, start=time, end=time + 1))
        time += 5
        calls += width
    return arrivals, calls


def assembled(batches: list[list[Arrival]], limits: AssembleSettings | None = None) -> list[Trajectory]:
    box, _ = assembler(limits)
    for number, batch in enumerate(batches):
        for arrival in batch:
            if isinstance(arrival, Reading):
                box.add(arrival, number)
            else:
                box.add_heads([arrival], number)
    # When it opened is the one thing that arrival decides.
    return [replace(trajectory, opened_ns=0) for trajectory in box.closed(SECOND_NS * 3600)]


@st.composite
def arrived(draw: st.DrawFn, arrivals: list[Arrival]) -> list[list[Arrival]]:
    """The same arrivals in another order, some of them twice, in several batches."""
    repeated = draw(st.lists(st.sampled_from(arrivals), max_size=5))
    order = draw(st.permutations([*arrivals, *repeated]))
    cuts = sorted(draw(st.lists(st.integers(0, len(order)), max_size=4)))
    return [order[start:end] for start, end in zip([0, *cuts], [*cuts, len(order)], strict=True)]


@given(st.data())
def test_order_batches_and_duplicates_change_nothing(data: st.DataObject):
    arrivals, calls = data.draw(runs())
    (expected,) = assembled([arrivals])
    assert len(expected.calls) == calls
    assert expected.closed_because == "run_ended"
    assert expected.attributes == {"tier": "gold"}
    assert assembled(data.draw(arrived(arrivals))) == [expected]


@given(st.data())
def test_a_small_content_budget_cuts_the_same_in_any_order(data: st.DataObject):
    arrivals, _ = data.draw(runs())
    limits = AssembleSettings(max_content_bytes=data.draw(st.integers(64, 3000)))
    grown = [_grown(arrival, data.draw(st.integers(0, 2000))) for arrival in arrivals]
    (expected,) = assembled([grown], limits)
    assert assembled(data.draw(arrived(grown)), limits) == [expected]


def _grown(arrival: Arrival, size: int) -> Arrival:
    if not isinstance(arrival, Reading) or not arrival.observations or arrival.is_log:
        return arrival
    text = MessageSeen(role="assistant", text=f"{arrival.ref.span_id} " * (size // 17))
    return replace(arrival, observations=(*arrival.observations, text), size_bytes=arrival.size_bytes + size)


def _order(trajectories: list[Trajectory]) -> list[tuple[int, int, str, object, str, tuple[str, ...]]]:
    return [
        (call.turn, call.position, call.name, call.arguments, call.state, call.agent_path)
        for trajectory in trajectories
        for call in trajectory.calls
    ]


@given(st.data(), st.integers(-10_000_000, 10_000_000))
def test_a_service_with_another_clock_changes_no_call(data: st.DataObject, skew_ms: int):
    arrivals, _ = data.draw(runs())
    skewed = [_skewed(arrival, skew_ms) for arrival in arrivals]
    before, after = _order(assembled([arrivals])), _order(assembled([skewed]))
    assert sorted(map(str, ((*call[2:],) for call in before))) == sorted(map(str, ((*call[2:],) for call in after)))


def _skewed(arrival: Arrival, skew_ms: int) -> Arrival:
    if not isinstance(arrival, Reading) or arrival.service != "expert":
        return arrival
    return replace(
        arrival, start_ns=arrival.start_ns + skew_ms * 1_000_000, end_ns=arrival.end_ns + skew_ms * 1_000_000
    )


@given(st.data())
def test_memory_stays_within_its_bounds_and_nothing_is_closed_twice(data: st.DataObject):
    limits = AssembleSettings(max_open=3, max_open_bytes=5000)
    box, _ = assembler(limits, conversations=True)
    closed: list[str] = []
    now_ns = 0
    for _ in range(data.draw(st.integers(1, 30))):
        trace = f"{data.draw(st.integers(0, 7)):032x}"
        now_ns += data.draw(st.integers(0, 20)) * SECOND_NS
        name = data.draw(st.sampled_from(("run", "tool", "ask")))
        observation = {"run": agent("a"), "tool": executed("f"), "ask": model()}[name]
        box.add(
            reading(name, observation, conversation(trace[-1:]), parent=None if name == "run" else "run", trace=trace),
            now_ns,
        )
        assert box.eviction.open_bytes <= 5000
        assert box.open_count <= 6
        closed += [one.trace_id for one in box.closed(now_ns) if one.scope == "trace"]
    closed += [one.trace_id for one in box.close_all(now_ns) if one.scope == "trace"]
    assert len(closed) == len(set(closed))

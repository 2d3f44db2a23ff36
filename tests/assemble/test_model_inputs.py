"""Inputs of models are kept as bytes: their histories may hold calls that an output lost."""

from collections.abc import Sequence

from tests.assemble.support import TRACE, answered, model, reading, span_id
from toolgauge.assemble.memory import Scale
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.assemble.trace import OpenTrace
from toolgauge.model.content import Recorded
from toolgauge.model.observations import CallRequested, MessageSeen, ModelInput
from toolgauge.model.records import Resource, Scope

RESOURCE, SCOPE = Resource(service="shop", attributes={}), Scope(name="test", version="")
Past = CallRequested | MessageSeen


class Histories:
    """Reads prepared histories, and remembers of which spans."""

    def __init__(self, **histories: Sequence[Past]) -> None:
        self._histories = {span_id(name): history for name, history in histories.items()}
        self.read: list[str] = []

    def read_history(self, given: ModelInput) -> Sequence[Past]:
        self.read.append(given.span_id)
        return self._histories[given.span_id]


def past(call_id: str, output: int) -> CallRequested:
    return CallRequested(position=0, name="find", call_id=call_id, arguments=Recorded({}), output=output)


def said(text: str) -> MessageSeen:
    return MessageSeen(role="user", text=text)


def trace_of(histories: Histories) -> OpenTrace:
    return OpenTrace(TRACE, AssembleSettings(), 0, Scale(), histories.read_history)


def give(trace: OpenTrace, name: str, *ids: str | None, size: int = 10_000) -> int:
    """Add a model call that was given these answers; return what the trace takes then."""
    own = tuple(one for one in ids if one is not None)
    given = ModelInput(
        span_id=span_id(name),
        dialect="test",
        answered=own if len(own) == len(ids) else (),
        raw=bytes(size),
        resource=RESOURCE,
        scope=SCOPE,
    )
    answers = [answered(one) for one in ids]
    trace.add(reading(name, model(), *answers), 0, given)
    return trace.size_bytes


def history(trace: OpenTrace, name: str) -> Sequence[Past]:
    found = trace.gathered().history
    assert found is not None
    return found(span_id(name))


def test_of_inputs_that_repeat_one_another_the_first_and_the_newest_are_kept():
    trace = trace_of(Histories())
    sizes = [give(trace, f"m{count}", *[f"c{at}" for at in range(count)]) for count in range(1, 6)]
    assert sizes[1] - sizes[0] > 10_000
    assert all(later - sizes[1] < 10_000 for later in sizes[2:])


def test_the_history_of_an_input_is_read_from_a_later_one_without_what_came_after():
    whole = [
        said("a"),
        past("c1", 0),
        past("c2", 1),
        past("lost", 1),
        said("b"),
        past("c3", 2),
        said("c"),
        past("c4", 3),
    ]
    histories = Histories(m1=whole[:2], m4=whole)
    trace = trace_of(histories)
    for count in range(1, 5):
        give(trace, f"m{count}", *[f"c{at}" for at in range(1, count + 1)])
    assert history(trace, "m2") == whole[:5]
    assert history(trace, "m3") == whole[:7]
    assert history(trace, "m1") == whole[:2]
    assert histories.read == [span_id(name) for name in ("m4", "m4", "m1")]


def test_inputs_with_answers_without_an_id_are_all_kept():
    trace = trace_of(Histories(m1=[said("1")], m2=[said("2")], m3=[said("3")]))
    for count, name in enumerate(("m1", "m2", "m3"), 1):
        give(trace, name, *[None] * count)
    assert history(trace, "m2") == [said("2")]


def test_inputs_of_runs_that_are_closed_on_their_own_are_given_up():
    trace = trace_of(Histories())
    before = trace.size_bytes
    assert give(trace, "m1", "c1") - before > 10_000
    trace.close_runs([span_id("m1")])
    assert trace.size_bytes - before < 2_000

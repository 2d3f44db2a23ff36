"""One call under two names: a server's prefix, a name that was cut, the class of an action. And two tools under two names."""

import pytest

from tests.assemble.support import agent, answered, args, executed, joined, model, only_call, reading, requested
from tests.rows import each_row
from toolgauge.model.content import NOT_RECORDED, Content, Recorded
from toolgauge.model.observations import CallError, Observation, Reading, ToolDefinition, ToolsOffered
from toolgauge.model.trajectory import Trajectory

FAILED = CallError(kind="tool_error", message="")
X = args(id="77")


def offered(*names: str) -> ToolsOffered:
    return ToolsOffered(tools=tuple(ToolDefinition(name=name) for name in names))


def asked(*seen: Observation, parent: str = "run", start: int = 1, name: str = "model") -> Reading:
    return reading(name, model(), *seen, parent=parent, start=start, end=start + 1)


def ran(
    name: str, arguments: Content = X, *, parent: str = "run", start: int = 3, mcp: bool = False, span: str = "tool"
) -> Reading:
    one = executed(name, arguments, result=Recorded("ok"), mcp=mcp)
    return reading(span, one, parent=parent, start=start, end=start + 1)


def of(*spans: Reading) -> Trajectory:
    return joined(reading("run", agent("clerk"), start=0, end=20), *spans)


def states(trajectory: Trajectory) -> list[tuple[str, str]]:
    return [(call.name, call.state) for call in trajectory.calls]


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        ("mcp__crm__find", "find"),
        ("crm-find", "find"),
        ("mcp_crm_find", "find"),
        ("crm.find", "find"),
        ("crm/find", "find"),
        ("crm__find", "find"),
        ("crm_find", "find"),
        ("crm_find", "crm.find"),
        ("mcp_customer_relationship_management_production_find_order_by_re", "find_order_by_reference_number"),
        ("read_meter", "ReadMeterAction"),
    ],
)
@pytest.mark.parametrize("mcp", [False, True])
def test_a_request_and_an_execution_that_agree_but_for_the_name_are_one_call(wanted: str, given: str, *, mcp: bool):
    call = only_call(of(asked(requested(wanted, X, id="1"), offered(wanted, "cancel")), ran(given, mcp=mcp)))
    assert (call.name, call.state, call.call_id, call.result) == (wanted, "executed", "1", Recorded("ok"))


def test_a_servers_span_without_arguments_fails_the_call_that_the_model_asked_for():
    span = reading("tool", executed("refund", error=FAILED, mcp=True), parent="run", start=3)
    call = only_call(of(asked(requested("mcp__crm__refund", X, id="1")), span))
    assert (call.name, call.error, call.arguments) == ("mcp__crm__refund", FAILED, X)


@each_row("client", ["crm.find", "crm_find", "mcp__crm__find"])
def test_a_servers_span_beside_its_call_is_no_other_one(client: str):
    tool = reading("tool", executed(client, X, id="1"), parent="run", start=3, end=6)
    served = reading("served", executed("find", mcp=True), parent="run", start=4, end=5, scope="server")
    assert only_call(of(asked(requested(client, X, id="1")), tool, served)).name == client


def test_two_tools_on_offer_are_never_one():
    both = of(asked(requested("crm__find", X, id="1"), offered("crm__find", "shop__find")), ran("shop__find"))
    assert states(both) == [("crm__find", "requested_only"), ("shop__find", "executed")]
    bare = of(asked(requested("crm__find", X, id="1"), offered("crm__find", "find")), ran("find"))
    assert states(bare) == [("crm__find", "requested_only"), ("find", "executed")]


def test_calls_of_two_servers_find_their_spans_in_order():
    spans = (ran("find", span="one", mcp=True), ran("find", span="two", start=5, mcp=True))
    model_span = asked(requested("crm__find", X, id="1"), requested("shop__find", X, id="2", position=1))
    assert states(of(model_span, *spans)) == [("crm__find", "executed"), ("shop__find", "executed")]


@each_row(
    "spans",
    [
        (asked(requested("read", args(k=1))), ran("ReadAction", args(k=2))),
        (asked(requested("read", args())), ran("ReadAction", args())),
        (asked(requested("read", NOT_RECORDED)), ran("ReadAction", NOT_RECORDED)),
        (asked(requested("read", X), start=8), ran("ReadAction")),
        (asked(requested("read", X)), reading("tool", executed("ReadAction", X, id="2"), parent="sub", start=3)),
    ],
    ids=["other arguments", "no arguments", "unknown arguments", "before the request", "another run"],
)
def test_without_evidence_they_are_two_calls(spans: tuple[Reading, ...]):
    sub = reading("sub", agent("expert"), parent="run", start=2, end=9)
    assert len(of(sub, *spans).calls) == 2


def test_a_repeated_call_is_that_of_the_newest_output():
    first = asked(requested("read", X, id="1"))
    again = asked(answered("1"), requested("read", X, id="2"), start=5, name="again")
    found = of(first, ran("ReadAction", span="one"), again, ran("ReadAction", start=7, span="two"))
    assert [(call.call_id, call.executed_by is not None, call.turn) for call in found.calls] == [
        ("1", True, 0),
        ("2", True, 1),
    ]

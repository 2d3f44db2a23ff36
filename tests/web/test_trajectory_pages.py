"""The pages of trajectories, made of recorded runs and of hostile text."""

import os
import re
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.export.scorecards import call, call_result, failed, passed, scorecard, trajectory, trajectory_result
from tests.rows import each_row
from tests.watch.support import watcher
from tests.web.html_reader import Html
from tests.web.streams import page as view
from tests.web.streams import pages, shown, worse_release
from toolgauge.export.redact import Redactor
from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.observations import CallError, ToolDefinition
from toolgauge.model.outcomes import Difference, NotEvaluated, Scorecard, Scored, Side, outcome_word
from toolgauge.model.records import VERSION
from toolgauge.model.trajectory import CallState, Message, ToolCall
from toolgauge.recordings.recorded_requests import find_files, read, scorecards
from toolgauge.report.kept import TrajectoryStore
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.criteria_factory import load_for_replay
from toolgauge.service.pipeline_factory import offline_pipeline
from toolgauge.web.pages import PageRequest, Shown, Writing
from toolgauge.web.stream_pages import StreamPages
from toolgauge.web.trajectory_pages import TrajectoryPages

DEMO = Path(__file__).parents[2] / "src/toolgauge/demo"
# A refund of 42.50 where 40 was expected, in the recorded traffic of the demo.
WRONG_REFUND = "7eabeccfb1a92e956d7b86c8164360e8"
HOSTILE = "<script>alert(1)</script>\"' onclick=x <b>&amp;</b> </title>\u202egnp\x1b[2J\x00\ud83d --> ]]> javascript:"
# All that pages are made of; what is hostile adds nothing to it.
ELEMENTS = frozenset(
    re.findall(
        r"\S+",
        """
        html head meta title link script body a header nav ul li div span button main h1 h2 h3 p table thead
        tbody tr th td section form label select option input dl dt dd code details summary ol strong time
        pre mark ins del
        """,
    )
)
ATTRIBUTES = frozenset(
    re.findall(
        r"\S+",
        """
        lang charset name content rel href type src defer class id aria-label aria-current role aria-pressed
        hidden tabindex scope action method value selected placeholder autocomplete spellcheck data-label
        data-live data-form data-zone data-without-script datetime title aria-hidden aria-labelledby
        """,
    )
)


@cache
def recorded() -> tuple[Scorecard, ...]:
    """Score the recorded traffic of the demo by its criteria."""
    config, criteria = load_for_replay([], [], [str(DEMO / "criteria.yaml")], os.environ)
    requests = read(find_files([str(DEMO / "traffic")]), lambda _size_bytes: None)
    return tuple(scorecards(requests, offline_pipeline(config, criteria)))


def page(
    *cards: Scorecard, path: str = "/", show_values: bool = True, trace_url: str | None = None, **query: str
) -> str:
    store = TrajectoryStore(20_000, 1 << 34)
    for card in cards:
        store.add(card)
    writing = Writing(redactor=Redactor(show_values=show_values), trace_url=trace_url)
    routes = TrajectoryPages(pages(), Shown(store, writing)).routes()
    parts = tuple(part for part in path.split("/") if part)
    asked = PageRequest(path=parts, query={name: (value,) for name, value in query.items()})
    html = routes["/" + "".join(parts[:1])](asked)
    assert html is not None
    # As it is sent.
    html.encode()
    return html


def hostile_card() -> Scorecard:
    made = replace(
        call(HOSTILE, error=CallError(kind=HOSTILE, message=HOSTILE)),
        arguments=Recorded({HOSTILE: HOSTILE, "amount": [HOSTILE]}),
        agent=HOSTILE,
        agent_path=(HOSTILE, HOSTILE),
    )
    second = replace(made, order=1, error=None, arguments=Unparsed(HOSTILE), result=Recorded(HOSTILE))
    of = replace(
        trajectory(made, second),
        service=HOSTILE,
        agents=(HOSTILE, HOSTILE),
        conversation_id=HOSTILE,
        tools_offered=(ToolDefinition(name=HOSTILE),),
        messages=(Message("user", HOSTILE, 0),),
        resource={VERSION: HOSTILE},
        incomplete=HOSTILE,
    )
    differs = Difference(
        where=f"{HOSTILE}: amount", rule=HOSTILE, expected=Side(value=HOSTILE), actual=Side(value=HOSTILE)
    )
    scored = Scored(0.5, HOSTILE, differences=(differs,), passed=False)
    return scorecard(
        call_result(scored, made),
        trajectory_result(scored),
        trajectory_result(NotEvaluated(reason="no_calls", explanation=HOSTILE), "other"),
        of=of,
    )


@pytest.mark.parametrize("show_values", [True, False])
@pytest.mark.parametrize("path", ["/", "/trajectories", "/trajectories/0af7651916cd43dd8448eb211c80319c"])
def test_hostile_text_adds_no_element_and_no_attribute(path: str, show_values: bool):  # noqa: FBT001 (a test's table)
    html = page(hostile_card(), path=path, show_values=show_values)
    read_back = Html(html)
    assert read_back.elements <= ELEMENTS
    assert read_back.attributes <= ATTRIBUTES
    assert all(link.startswith(("/", "#")) for link in read_back.links)
    assert "<script>alert(1)</script>" in read_back.text
    assert not {"\u202e", "\x1b", "\x00", "\ud83d"} & set(html)


@each_row("path", ["/", "/trajectories", f"/trajectories/{WRONG_REFUND}"])
def test_pages_have_one_outline(path: str):
    read_back = Html(page(*recorded(), path=path))
    assert read_back.headings[0] == 1
    assert read_back.headings.count(1) == 1
    assert all(below - above <= 1 for above, below in zip(read_back.headings, read_back.headings[1:], strict=False))
    assert len(read_back.ids) == len(set(read_back.ids))
    assert "style" not in read_back.attributes


def test_page_of_a_trajectory_shows_expected_beside_actual():
    html = page(*recorded(), path=f"/trajectories/{WRONG_REFUND}")
    text = Html(html).text
    assert "fail refund-arguments 0.667" in text
    assert "refund_order: amount 40.0 42.5 exact" in text
    assert "amount 42.5 ✕ expected 40.0 refund-arguments" in text
    assert "3 of 3 calls pass" in text
    assert "Refund the latest order of [email], it arrived damaged." in text
    assert "200 in, 40 out" in text
    # Turns have the numbers of the terminal.
    assert ("Turn 0<" in html, "Turn 1<" in html) == (False, True)
    assert f'href="/trajectories/{WRONG_REFUND}">{WRONG_REFUND}</a>' in html


def test_hidden_values_leave_names_rules_and_kinds():
    html = page(*recorded(), path=f"/trajectories/{WRONG_REFUND}", show_values=False)
    text = Html(html).text
    assert "42.5" not in text
    assert "arrived damaged" not in text
    assert "amount hidden (number) ✕ differs (exact) refund-arguments" in text
    assert "redact: {values: show}" in text
    assert "3 hidden" in text


def test_trace_is_linked_where_there_is_a_place_for_it():
    path = f"/trajectories/{WRONG_REFUND}"
    linked = Html(page(*recorded(), path=path, trace_url="https://traces.example/t/{trace_id}"))
    assert f"https://traces.example/t/{WRONG_REFUND}" in linked.links
    assert "open the trace" not in Html(page(*recorded(), path=path)).text


def test_list_has_the_worst_result_and_its_reason():
    text = Html(page(*recorded(), path="/trajectories", outcome="failed", service="shop-assistant")).text
    assert "2 trajectories of 8 that are kept" in text
    assert "fail shop-assistant agent shop_agent" not in text
    assert "refund-arguments 0.667: refund_order: amount: expected 40.0, got 42.5" in text
    assert "default.tool_success 0.000: `charge_card` failed with `ValueError`" in text
    nothing = Html(page(*recorded(), path="/trajectories", service="gone")).text
    assert "None of the 8 trajectories" in nothing


def test_overview_names_failures_gaps_and_services():
    text = Html(page(*recorded())).text
    assert "1 of 3 shop-assistant default.tool_success of charge_card: `charge_card` failed with `ValueError`" in text
    assert "default.arguments_schema arguments not recorded 3 of" in text
    assert "shop-assistant" in text
    assert "2 of 3" in text
    assert "No trajectory yet" in Html(page()).text


@pytest.mark.parametrize(("uncounted", "is_shown"), [(3, True), (0, False)])
async def test_overview_says_how_many_results_read_like_errors_and_fail_nothing(uncounted: int, is_shown: bool):  # noqa: FBT001 (a test's table)
    registry = MetricRegistry()
    metrics = SelfMetrics(registry)
    metrics.reported_errors.add(1, ("fail",))
    metrics.reported_errors.add(uncounted, ("pass",))
    over = shown(None, registry=registry)
    over.store.add(scorecard(call_result(passed(), call("search")), of=trajectory(call("search"))))
    html = await view(TrajectoryPages, over, "")
    assert html is not None
    assert ("4 results read like errors, 1 are counted as failures" in Html(html).text) is is_shown


def test_trajectory_that_is_not_kept_has_no_page():
    writing = Writing(redactor=Redactor(show_values=True), trace_url=None)
    routes = TrajectoryPages(pages(), Shown(TrajectoryStore(1, 1), writing)).routes()
    for path in (("gone",), ("a", "b")):
        assert routes["/trajectories"](PageRequest(path=("trajectories", *path))) is None


STOPPED: tuple[CallState, ...] = ("paused", "refused")


def many_calls(count: int) -> tuple[ToolCall, ...]:
    first = replace(call("search"), arguments=Recorded({"query": "x" * 1000}))
    return tuple(replace(first, order=number, turn=number // 2) for number in range(count))


def test_many_calls_are_shown_hundred_at_a_time():
    calls = many_calls(1_000)
    results = [call_result(failed() if one.order == 777 else passed(), one) for one in calls]
    card = scorecard(*results, of=trajectory(*calls))
    path = "/trajectories/0af7651916cd43dd8448eb211c80319c"
    first = page(card, path=path)
    assert len(first) < 400_000
    assert "calls 1 to 100 of 1,000" in Html(first).text
    assert "999 of 1,000 calls pass" in Html(first).text
    assert f"{path}?call=777#call-777" in Html(first).links
    assert "call-777" in Html(page(card, path=path, call="777")).ids


@each_row("wrong", ["2", "-1", "x", "9" * 400, "٣"])
def test_call_that_is_not_there_is_passed_over(wrong: str):
    card = scorecard(of=trajectory(*many_calls(2)))
    path = "/trajectories/0af7651916cd43dd8448eb211c80319c"
    assert page(card, path=path, call=wrong) == page(card, path=path)


def test_large_values_are_cut_and_shown_longer_on_demand():
    made = replace(
        call("N" * 100_000), arguments=Recorded({"text": "y" * 1_000_000}), result=Recorded([*["z"] * 50_000])
    )
    card = scorecard(call_result(passed(), made), of=replace(trajectory(made), service="S" * 100_000))
    path = "/trajectories/0af7651916cd43dd8448eb211c80319c"
    short, long = page(card, path=path), page(card, path=path, call="0")
    assert len(short) < 30_000
    assert "Show call 1 whole" in Html(short).text
    assert 100_000 < len(long) < 1_000_000
    assert len(page(card)) < 20_000


def test_name_with_invisible_characters_can_be_chosen_from_a_list():
    of = trajectory(replace(call(), name="pay\u200b"))
    named = replace(of, service="shop\u200b\U000e0067", agents=("ag\xadent",), resource={VERSION: "1\u200e"})
    other = replace(of, trace_id="b" * 32, service="other", agents=(), calls=(), resource={})
    cards = [
        scorecard(call_result(failed(), named.calls[0]), of=named),
        scorecard(trajectory_result(passed()), of=other),
    ]
    for field, written in (
        ("service", r"shop\u200b\U000e0067"),
        ("agent", r"ag\xadent"),
        ("tool", r"pay\u200b"),
        ("version", r"1\u200e"),
    ):
        html = page(*cards, path="/trajectories", show_values=True, trace_url=None, **{field: written})
        assert "1 trajectory of 2 that are kept" in Html(html).text
        assert html.count(f'value="{written}" selected') == 1
        assert html.count(f'value="{written}"') == 1


def test_call_with_very_many_arguments_is_shown_in_part():
    made = replace(call(), arguments=Recorded({f"key{number}": "v" * 1_000 for number in range(2_000)}))
    html = page(scorecard(of=trajectory(made)), path="/trajectories/0af7651916cd43dd8448eb211c80319c", call="0")
    assert len(html) < 1_000_000
    assert "key999 " in Html(html).text
    assert "key1000 " not in Html(html).text
    assert "and 1,000 more arguments" in Html(html).text


@pytest.mark.parametrize("show_values", [True, False])
def test_secret_in_the_name_of_an_argument_or_an_error_is_masked(show_values: bool):  # noqa: FBT001 (a test's table)
    made = replace(
        call(error=CallError(kind="Unknown user ann@shop.example", message="m")),
        arguments=Recorded({"bob@shop.example": 1, "amount": 2}),
    )
    path = "/trajectories/0af7651916cd43dd8448eb211c80319c"
    text = Html(page(scorecard(of=trajectory(made)), path=path, show_values=show_values)).text
    assert "@shop.example" not in text
    assert "Unknown user [email]" in text
    assert "[email] 1 amount 2" in text if show_values else "[email] hidden (number) amount hidden (number)" in text


@pytest.mark.parametrize("show_values", [True, False])
def test_error_without_a_message_hides_none(show_values: bool):  # noqa: FBT001 (a test's table)
    made = call(error=CallError(kind="Timeout", message=""))
    path = "/trajectories/0af7651916cd43dd8448eb211c80319c"
    text = Html(page(scorecard(of=trajectory(made)), path=path, show_values=show_values)).text
    assert "error Timeout" in text
    assert "message hidden" not in text


async def test_overview_names_incidents_first_and_links_their_streams():
    over = shown(worse_release(watcher()).watcher)
    html = await view(TrajectoryPages, over, "")
    assert html is not None
    read_back = Html(html)
    alarms = [link for link in read_back.links if link.startswith("/streams/")]
    # Both streams of one incident.
    assert "1 open incident support, since" in read_back.text
    assert "default.tool_success of find_order, refund-agent:" in read_back.text
    assert len(alarms) == 2
    assert await view(StreamPages, over, "streams", alarms[0].removeprefix("/streams/")) is not None


def test_calls_that_wait_or_were_refused_say_so_and_are_counted_by_service():
    paused, refused = (replace(call("wire_money"), order=number, state=state) for number, state in enumerate(STOPPED))
    card = scorecard(call_result(passed(), paused), of=trajectory(paused, refused))
    assert "2 of 2" in Html(page(card)).text
    shown = Html(page(card, path="/trajectories/0af7651916cd43dd8448eb211c80319c")).text
    assert "waits for a person" in shown
    assert "refused by a person" in shown


def test_failing_call_has_the_origins_of_its_values():
    text = Html(page(*recorded(), path=f"/trajectories/{WRONG_REFUND}")).text
    chain = "from the result of call 2 `list_orders`, whose `customer_id` is from the result of call 1 `find_customer`"
    assert f'origin of values `order_id` "A-1001" is {chain}' in text
    # Of the call that failed alone.
    assert text.count("origin of values") == 1
    hidden = Html(page(*recorded(), path=f"/trajectories/{WRONG_REFUND}", show_values=False)).text
    assert f"origin of values `order_id` is {chain}" in hidden
    fine = [one for one in recorded() if all(outcome_word(each.outcome) != "fail" for each in one.results)]
    assert fine
    for card in fine:
        assert "origin of values" not in Html(page(card, path=f"/trajectories/{card.trajectory.trace_id}")).text


def test_a_failed_call_that_was_made_good_says_so():
    failing = call("pay", error=CallError(kind="Timeout", message=""))
    later = replace(call("pay"), order=1, turn=1)
    path = "/trajectories/0af7651916cd43dd8448eb211c80319c"
    assert Html(page(scorecard(of=trajectory(failing, later)), path=path)).text.count("made good later") == 1
    assert "made good later" not in Html(page(scorecard(of=trajectory(failing)), path=path)).text


def test_a_step_of_a_code_agent_is_marked():
    failing = replace(call("python_interpreter", error=CallError(kind="E", message="")), kind="code")
    text = Html(page(scorecard(of=trajectory(failing)), path="/trajectories/0af7651916cd43dd8448eb211c80319c")).text
    assert "python_interpreter ✕ failed code" in text

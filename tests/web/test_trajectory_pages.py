"""The pages of trajectories, made of recorded runs and of hostile text."""

import os
import re
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.export.scorecards import call, call_result, failed, passed, scorecard, trajectory, trajectory_result
from tests.web.html_reader import Html
from tests.web.streams import TEMPLATES
from toolgauge.export.redact import Redactor
from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.observations import CallError, ToolDefinition
from toolgauge.model.outcomes import Difference, NotEvaluated, Scorecard, Scored, Side, outcome_word
from toolgauge.model.records import VERSION
from toolgauge.model.trajectory import CallState, Message, ToolCall
from toolgauge.recordings.recorded_requests import find_files, read, scorecards
from toolgauge.report.trajectory_rows import TrajectoryFilters
from toolgauge.service.criteria_factory import load_for_replay
from toolgauge.service.pipeline_factory import offline_pipeline
from toolgauge.web.pages import PageContent, PageRequest, Writing
from toolgauge.web.trajectory_pages import options, overview, trajectories
from toolgauge.web.trajectory_store import TrajectoryStore

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
        pre mark ins del datalist kbd
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
        aria-keyshortcuts data-run data-with-script list maxlength download
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
    shown = PageContent(store, writing, templates=TEMPLATES)
    parts = tuple(part for part in path.split("/") if part)
    asked = PageRequest(path=parts, query={name: (value,) for name, value in query.items()})
    html = trajectories(shown, asked) if parts else overview(shown, asked)
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


def test_pages_of_the_list_follow_each_other_without_a_gap_while_others_come():
    store = TrajectoryStore(200, 1 << 34)
    shown = PageContent(store, Writing(redactor=Redactor(show_values=True), trace_url=None), templates=TEMPLATES)

    def add(number: int) -> None:
        store.add(scorecard(trajectory_result(passed()), of=replace(trajectory(call()), trace_id=f"{number:032x}")))

    def listed(before: str) -> tuple[list[int], str | None]:
        html = trajectories(shown, PageRequest(path=("trajectories",), query={"before": (before,)}))
        older = re.search(r"before=(\d+)\">Older", html or "")
        return [int(found, 16) for found in re.findall(r"/trajectories/(\w{32})", html or "")], older and older[1]

    for number in range(1, 121):
        add(number)
    assert listed("") == ([*range(120, 70, -1)], "71")
    add(121)
    assert listed("71") == ([*range(70, 20, -1)], "21")
    assert listed("21") == ([*range(20, 0, -1)], None)


def test_the_choices_of_the_filters_are_the_values_of_the_trajectories():
    shop = replace(
        trajectory(call("search"), call("pay")),
        service="shop",
        agents=("buyer",),
        resource={VERSION: "1.4.2"},
        properties={"gen_ai.response.model": "large-06", "gen_ai.request.temperature": "0"},
    )
    other = replace(shop, properties={**shop.properties, "gen_ai.response.model": "large-05"})
    cards = [scorecard(trajectory_result(passed()), of=of) for of in (shop, other)]
    found = options(TrajectoryFilters(), [*cards, scorecard(call_result(failed()), of=trajectory(call()))])
    assert {name: values for name, _, _, values in found} == {
        "service": ["shop", "support"],
        "version": ["1.4.2"],
        "agent": ["buyer", "refund-agent", "triage"],
        "tool": ["issue_refund", "pay", "search"],
        "criterion": ["refund-arguments", "refund-f1"],
        "scope": ["trace"],
        # Runs do not differ in the temperature.
        "run_property": ["gen_ai.response.model=large-05", "gen_ai.response.model=large-06"],
    }

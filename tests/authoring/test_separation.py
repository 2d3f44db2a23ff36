"""Rules that tell runs that people marked bad from those they marked good."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from tests.authoring.office import FAULTS, office
from tests.authoring.support import call, run
from tests.score.support import tool_call, user
from toolgauge.authoring.separation import Separation, Separator, separate
from toolgauge.model.content import NOT_RECORDED
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Result, Scorecard, Scored, outcome_word
from toolgauge.model.trajectory import Message, ToolCall, Trajectory
from toolgauge.score.contracts import BY_NAME
from toolgauge.score.scorer import Scorer
from toolgauge.service.criteria_factory import load_for_replay


def card(trajectory: Trajectory, *failing: str) -> Scorecard:
    results = [
        Result(
            criterion=name,
            revision="r",
            evaluator="e",
            version="1",
            level="trajectory",
            enforce="live",
            outcome=Scored(value=0.0, explanation="no", passed=False),
        )
        for name in failing
    ]
    return Scorecard(trajectory=trajectory, results=tuple(results), scored_at_ns=0)


def of(bad: Iterable[Trajectory], good: Iterable[Trajectory], others: Iterable[Trajectory] = ()) -> Separation:
    return separate([*map(card, bad)], [*map(card, good)], [*map(card, others)])


def sale(number: int, *more: ToolCall, looks: bool = True, **arguments: Json) -> Trajectory:
    """A run in which an order is found and refunded."""
    order = f"W{1000000 + number}"
    total = 20.0 + number * 7 % 60
    found = [call("find_order", {"order_id": order}, {"id": order, "total": total})] if looks else []
    refund: JsonObject = {"order_id": order, "amount": total, "reason": "late" if number % 2 else "damaged"} | arguments
    return run(number, *found, call("refund", refund, {"done": number}), *more)


GOOD = [sale(number) for number in range(20)]


def fails(text: str, trajectories: Sequence[Trajectory], folder: Path) -> list[bool]:
    """Score runs by a criteria file, as `toolgauge check --criteria` does."""
    file = folder / "criteria.yaml"
    file.write_text(text)
    _, criteria = load_for_replay((), ("defaults.enabled=false",), [str(file)], {})
    scorer = Scorer(criteria, BY_NAME)
    return [any(outcome_word(one.outcome) == "fail" for one in scorer.score(run)) for run in trajectories]


def named(found: Separation, ending: str) -> Separator:
    (one,) = [one for one in found.separators if one.name.endswith(ending)]
    return one


def test_a_skipped_lookup_separates_and_its_text_is_a_criteria_file(tmp_path: Path):
    bad = [sale(number, looks=False) for number in range(100, 105)]
    found = of(bad, GOOD)
    best = found.separators[0]
    assert best == Separator(
        name="learned.refund.before.find_order",
        sentence="`refund` without `find_order` before it",
        text=(
            "- name: learned.refund.before.find_order\n"
            "  enforce: shadow\n"
            "  when: {service: shop}\n"
            "  scope: conversation\n"
            "  evaluator: order_rules\n"
            "  rules: [{before: refund, call: find_order}]\n"
        ),
        found=tuple(one.trace_id for one in bad),
        flagged=(),
        estimated_found=(5, 5),
        estimated_flagged=(0, 20),
    )
    assert (found.chosen, found.all_together.text) == (1, best.text)
    new = [sale(300, looks=False), sale(301)]
    assert fails(best.text, new, tmp_path) == [True, False]


def test_an_amount_that_is_not_in_the_found_order_separates():
    bad = [sale(number, amount=3.5 * number) for number in range(100, 105)]
    assert named(of(bad, GOOD), "from.amount.find_order").estimated_found == (5, 5)


def asked(number: int, *answers: str) -> Trajectory:
    question = [Message(role="assistant", text=f"Shall I refund W{1000000 + number}?", turn=1)] if answers else []
    messages = (user("Hello", 0), *question, *(user(text, 1) for text in answers))
    return replace(sale(number), messages=messages)


def looked(number: int, *errors: bool) -> Trajectory:
    return sale(number, *[call("look", {"at": place}, error=error) for place, error in enumerate(errors)])


# By the sentence of the difference, how bad runs are made, and good ones.
KINDS: dict[str, tuple[Callable[[int], Trajectory], Callable[[int], Trajectory]]] = {
    "`escalate` is called": (lambda n: sale(n, call("escalate")), sale),
    "no call of `search`": (run, lambda n: run(n, call("search"))),
    "`refund` without `mail` after it": (sale, lambda n: sale(n, call("mail"))),
    "calls of `look`: more than 4": (lambda n: looked(n, *[False] * 7), lambda n: looked(n, False)),
    "failed calls of `look`: more than 2": (
        lambda n: looked(n, True, True, True, False),
        lambda n: looked(n, n % 2 > 0, False, False, False),
    ),
    "`look` fails": (lambda n: looked(n, True, False), lambda n: looked(n, False, False)),
    "calls: more than 5": (
        lambda n: run(n, *[call(f"get_{n % 3 + place}") for place in range(8)]),
        lambda n: run(n, *[call(f"get_{n % 9 + place}") for place in range(3)]),
    ),
    "`refund` without the user's confirmation": (asked, lambda n: asked(n, "Yes")),
    "`refund` with `fee`": (lambda n: sale(n, fee=n * 1.5), sale),
    "`refund` without `reason`": (
        lambda n: run(n, call("refund", {"amount": 5})),
        lambda n: run(n, call("refund", {"amount": 5, "reason": f"it came too late, on the {n}th"})),
    ),
    "`label` of `tag` is `urgent`": (
        lambda n: run(n, call("tag", {"label": "urgent"})),
        lambda n: run(n, call("tag", {"label": "normal"})),
    ),
    "`force` of `refund` is `true`": (lambda n: sale(n, force=True), lambda n: sale(n, force=False)),
    '`amount` of `refund` is not at least 0, at most 29, of type "integer"': (
        lambda n: run(n, call("refund", {"amount": 900 + n})),
        lambda n: run(n, call("refund", {"amount": n})),
    ),
    '`label` of `tag` is not one of ["high", "low"], of type "string"': (
        lambda n: run(n, call("tag", {"label": "very " * (n - 99)})),
        lambda n: run(n, call("tag", {"label": "high" if n % 2 else "low"})),
    ),
    '`at` of `plan` is not like "^(?:\\\\d{4}-\\\\d{2}-\\\\d{2})$", of type "string"': (
        lambda n: run(n, call("plan", {"at": f"{n}/7/26"})),
        lambda n: run(n, call("plan", {"at": f"2026-07-{n + 1:02d}"})),
    ),
}


@pytest.mark.parametrize("sentence", KINDS)
def test_each_kind_of_difference_is_named(sentence: str):
    bad, good = KINDS[sentence]
    found = of([bad(number) for number in range(100, 106)], [good(number) for number in range(20)])
    best = found.separators[0]
    assert (best.sentence, len(best.found), best.flagged) == (sentence, 6, ())
    assert (best.estimated_found, best.estimated_flagged) == ((6, 6), (0, 20))


def test_a_difference_that_one_run_shows_is_not_expected_to_find_more():
    found = of([sale(100, looks=False), *(sale(number, call("escalate")) for number in range(101, 105))], GOOD)
    assert named(found, "before.find_order").estimated_found == (0, 5)
    assert found.all_together.estimated_found == (4, 5)


def test_a_rule_that_a_good_run_breaks_is_none():
    bad = [sale(number, looks=False) for number in range(100, 105)]
    assert not of(bad, [*GOOD, sale(50, looks=False)]).separators


def test_a_rule_that_unmarked_runs_break_too_often_is_none():
    bad = [sale(100, call("escalate")), *(sale(number, looks=False) for number in range(101, 104))]
    others = [sale(number, call("escalate")) for number in range(200, 240)]
    names = {one.name for one in of(bad, GOOD, others).separators}
    assert names == {"learned.refund.before.find_order"}


def test_a_run_counts_once_and_not_at_all_with_both_marks():
    twice, both = sale(100, looks=False), sale(101, looks=False)
    found = of([twice, twice, both, sale(102, looks=False)], [*GOOD[:5], both])
    assert (found.bad, found.good, found.unused) == (2, 5, 3)


def test_criteria_in_use_that_fail_on_bad_runs_are_named():
    bad = [card(sale(number), "default.one_effect") for number in (100, 101)]
    found = separate([*bad, card(sale(102))], [card(GOOD[0], "default.one_effect"), *map(card, GOOD[1:])])
    (one,) = found.already
    assert (one.name, one.text, one.flagged) == ("default.one_effect", "", (GOOD[0].trace_id,))
    assert (one.estimated_found, one.estimated_flagged) == ((2, 3), (1, 20))


def test_a_version_that_bad_runs_have_is_named():
    def released(number: int, version: str) -> Trajectory:
        return replace(sale(number), resource={"service.version": version}, properties={"gen_ai.request.model": "m"})

    bad = [released(number, "1.2" if number % 5 else "1.1") for number in range(100, 110)]
    good = [released(number, "1.1" if number else "1.2") for number in range(20)]
    (one,) = of(bad, good).differences
    assert (one.sentence, len(one.found), len(one.flagged)) == ("`service.version` is `1.2`", 8, 1)
    assert not of(good[:5], good[5:10]).differences


def test_three_bad_runs_and_a_few_good_ones_are_enough_for_a_rule():
    found = of([sale(number, looks=False) for number in (100, 101, 102)], GOOD[:4])
    assert (found.separators[0].name, found.chosen) == ("learned.refund.before.find_order", 1)


def test_nothing_is_said_without_runs_calls_or_differences():
    for bad, good in (((), ()), (GOOD[:1], ()), ((), GOOD), ([run(1)], [run(2)]), (GOOD[:10], GOOD[10:])):
        found = of(bad, good)
        assert (found.separators, found.chosen, found.all_together.text) == ((), 0, "")


def test_a_good_run_that_was_cut_short_is_no_evidence_of_what_it_lacks():
    bad = [sale(number, looks=False) for number in range(100, 103)]
    cut = replace(run(60), closed_because="max_duration")
    hidden = replace(run(61, call("refund", {"amount": 1})), hidden_turns=2)
    found = of(bad, [*GOOD, cut, hidden])
    assert (found.separators[0].name, found.separators[0].flagged) == ("learned.refund.before.find_order", ())
    all_cut = of(bad, [replace(one, closed_because="max_duration") for one in GOOD])
    assert "find_order" not in all_cut.all_together.text


def test_names_and_values_of_people_are_never_written():
    address = "jane.doe@example.com"

    def leaky(number: int, who: str) -> Trajectory:
        arguments: JsonObject = {"to": who, "city": "paris", "code": "AB-12", f"key{number}x9": 1, "note": "hello"}
        made = call("send_mail", arguments, {"id": f"X{number}", "for": who})
        return run(number, call(f"look_{number}99999"), made, call(f"tool of {who}"), service=f"shop of {who}")

    found = of(
        [leaky(number, address) for number in range(100, 110)],
        [leaky(number, f"{number}@x.org") for number in range(9)],
    )
    for one in (*found.separators, found.all_together):
        for word in (address, "jane", "paris", "AB-12", "hello", "99999", "x9", "shop of"):
            assert word not in f"{one.name} {one.sentence} {one.text}"


@pytest.mark.parametrize("name", ["null", "on", "a.b", "mcp:files/read", "x" * 120, "Refund"])
def test_tools_with_difficult_names_have_rules_of_their_own(name: str, tmp_path: Path):
    def made(number: int, value: float, *before: ToolCall) -> Trajectory:
        return run(number, call("look", {}, {"n": 1.5 * number}), *before, call(name, {"amount": value}))

    bad = [made(number, 7.0 * number) for number in range(100, 106)]
    found = of(bad, [made(number, 1.5 * number) for number in range(20)])
    assert found.chosen == 1
    assert fails(found.all_together.text, bad, tmp_path) == [True] * 6


@pytest.mark.parametrize("name", ["a*", "a b", "{0}", "refund`\n- x", "<b>", ""])
def test_names_that_may_not_be_written_have_no_rule(name: str):
    bad = [sale(number, call(name, {"x": 1})) for number in range(100, 106)]
    assert {one.name for one in of(bad, GOOD).separators} == {"learned.run.length.calls"}


def test_hostile_and_huge_runs_cost_little():
    deep: Json = []
    for _ in range(3000):
        deep = [deep]
    wide: Json = {"list": [*range(50_000)], "text": "x" * 500_000, "deep": deep, "nan": float("nan"), "big": 10**400}
    huge = [run(number, *[call("save", {"v": wide, "\ud800": "\x00"}, wide)] * 3) for number in (1, 2, 101, 102)]
    many = [run(number, *[call(f"tool_{place}", {"n": number}) for place in range(1000)]) for number in (3, 4, 103)]
    found = of([*huge[2:], many[2], sale(104, looks=False)], [*huge[:2], *many[:2], *GOOD[:5]])
    assert found.bad == 4
    assert len(found.separators) <= 20


def test_of_many_runs_some_are_compared():
    bad = [sale(number, looks=False) for number in range(100, 150)]
    found = of(bad, [sale(number) for number in range(80)])
    assert (found.bad, found.good, found.unused) == (30, 30, 70)
    assert of(bad, GOOD[:5]).bad == 50
    endless = run(200, *[call("look", {"page": page}) for page in range(1501)])
    assert of([endless, *bad[:2]], GOOD[:5]).unused == 1


def test_runs_without_arguments_and_results_are_judged_by_their_order():
    def bare(number: int, *names: str) -> Trajectory:
        return run(number, *[tool_call(name, arguments=NOT_RECORDED) for name in names])

    found = of(
        [bare(number, "refund") for number in range(100, 105)], [bare(number, "find", "refund") for number in range(9)]
    )
    assert {one.name for one in found.separators} == {"learned.refund.before.find"}


def test_faults_of_an_office_agent_are_found_in_runs_that_nobody_marked(tmp_path: Path):
    faults = [*FAULTS * 8, *[""] * 110]
    runs = office(5, faults)
    bad = [one for one, fault in zip(runs, faults, strict=True) if fault]
    good = [one for one, fault in zip(runs, faults, strict=True) if not fault]
    found: list[int] = []
    for seed in range(3):
        random = Random(seed)  # noqa: S311 (made-up marks)
        random.shuffle(bad)
        random.shuffle(good)
        text = of(bad[:10], good[:20]).all_together.text
        found.append(sum(fails(text, bad[10:], tmp_path)))
        assert not any(fails(text, good[20:], tmp_path))
    assert sorted(found)[1] >= 24

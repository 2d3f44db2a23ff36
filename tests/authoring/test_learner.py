"""What is learned from runs, and what is not."""

from pathlib import Path

from msgspec.structs import replace

from tests.authoring.support import REQUIREMENTS, call, contracts, learned, learned_text, refund, run
from tests.rows import each_row
from tests.score.support import user
from toolgauge.authoring.evidence import Evidence, Requirements
from toolgauge.authoring.learner import Learner
from toolgauge.model.json import Json
from toolgauge.model.observations import ToolDefinition
from toolgauge.score.contracts import ToolKinds
from toolgauge.service.criteria_factory import load_for_replay

USUAL = [refund(number) for number in range(60)]


def test_criteria_are_for_the_service_and_its_conversations():
    assert {(str(one.get("when")), one["scope"]) for one in learned(USUAL).values()} == {
        ("None", "conversation"),
        ("{'service': 'shop'}", "conversation"),
    }


def test_arguments_have_types_labels_and_ranges():
    assert {name: one["arguments"] for name, one in contracts(USUAL).items()} == {
        "find_order": {"order_id": {"type": "string"}},
        "refund": {
            "amount": {"type": "number", "minimum": 0, "maximum": 99},
            "cabin": {"type": "string", "enum": ["business", "economy"]},
            "order_id": {"type": "string"},
            # A phrase that no definition spells is free text.
            "reason": {"type": "string"},
        },
    }


def test_phrases_that_the_definition_spells_are_labels():
    definition = ToolDefinition(name="refund", description="Reasons are 'damaged' and 'too late'.")
    offered = [definition, ToolDefinition(name="find_order")]
    runs = [replace(one, tools_offered=tuple(offered)) for one in USUAL]
    assert contracts(runs)["refund"]["arguments"]["reason"] == {"type": "string", "enum": ["damaged", "too late"]}


def test_the_keys_that_all_results_have_are_required():
    runs = [
        run(
            number,
            call("find_order", {"id": number}, {"id": number, "total": 1.5, **({"note": "x"} if number % 9 else {})}),
        )
        for number in range(60)
    ]
    assert contracts(runs)["find_order"]["result"] == {"type": "object", "required": ["id", "total"]}


def test_results_that_read_like_errors_now_and_then_are_failures():
    runs = [
        run(number, call("find_order", {"id": number}, {"id": number} if number % 150 else "Error: no order"))
        for number in range(300)
    ]
    assert contracts(runs)["find_order"]["fails_when"] == {"text": ["Error:*"]}
    assert "  # 2 of 300 calls\n" in learned_text(runs)
    often = [run(number, call("find_order", {"id": number}, "Error: no order")) for number in range(300)]
    assert "fails_when" not in contracts(often)["find_order"]


def test_arguments_that_are_new_in_every_call_are_not_kept():
    runs = [
        run(number, call("save", {"deep": {f"k{number}{letter}": {letter: {letter: 1}} for letter in "abcdefgh"}}))
        for number in range(60)
    ]
    assert contracts(runs)["save"]["arguments"] == {"deep": {"type": "object", "additionalProperties": True}}


def test_what_always_came_before_for_the_same_value_is_required():
    assert contracts(USUAL)["refund"]["requires"] == {"call": "find_order", "same": ["order_id"]}


def test_one_of_two_tools_that_came_before_is_enough():
    runs = [run(number, call(f"find_by_{'mail' if number % 2 else 'name'}"), call("refund")) for number in range(60)]
    assert contracts(runs)["refund"]["requires"] == {"call": ["find_by_mail", "find_by_name"]}


def test_a_call_that_failed_came_before_nothing():
    runs = [run(number, call("find_order", error=True), call("refund")) for number in range(60)]
    assert "requires" not in contracts(runs).get("refund", {})


def test_ids_of_a_single_customer_show_no_origin():
    runs = [
        run(number, call("find_user", {"city": "x"}, {"id": "U1000"}), call("close", {"user_id": "U1000"}))
        for number in range(60)
    ]
    assert contracts(runs)["close"]["requires"] == {"call": "find_user"}


def test_lines_have_their_evidence():
    text = learned_text(USUAL)
    assert "# 60 runs with 120 calls of shop\n" in text
    assert "# A rule needs 20 runs. 0 of 60 runs would break what is learned from the others.\n" in text
    assert "# A limit needs 20 runs. 0 of 60 runs would fail what is learned from the others.\n" in text
    assert "  refund:  # 60 calls, in 60 of 60 runs\n" in text
    assert "    requires: {call: find_order, same: [order_id]}  # 60 of 60, in 60 runs\n" in text
    assert "    calls: 3  # 50% 2, 90% 2, 99% 2, most 2, of 60 runs\n" in text


def test_the_order_of_runs_makes_no_difference():
    assert learned_text(USUAL) == learned_text(reversed(USUAL))


def test_too_few_runs_teach_nothing():
    assert learned_text(USUAL[:19]).endswith("criteria: []\n")


def test_a_rule_that_too_many_runs_break_is_not_written():
    broken = [run(number, call("refund", {"order_id": f"W{number}"})) for number in range(100, 103)]
    assert "requires" not in contracts([*USUAL, *broken])["refund"]


def test_a_rule_that_a_hundred_runs_break_does_not_hold_at_any_tolerance():
    requirements = Requirements(tolerance=0.5)
    assert requirements.met_by(Evidence(runs=1000, broken=98))
    assert not requirements.met_by(Evidence(runs=1000, broken=100))


def test_a_rule_that_one_of_many_runs_breaks_is_written_with_its_evidence():
    runs = [*(refund(number) for number in range(199)), run(200, call("refund", {"order_id": "W1000200"}))]
    assert "    requires: {call: find_order, same: [order_id]}  # 199 of 200, in 200 runs\n" in learned_text(runs)


def test_rules_need_more_runs_where_too_many_would_fail():
    # Each of these runs has an argument of a form that no other has.
    odd: list[Json] = [None, True, 3, 0.5, [], {}]
    runs = [*USUAL[:30], *(refund(100 + number, cabin=value) for number, value in enumerate(odd))]
    learner = Learner()
    for one in runs:
        learner.add(one)
    found = learner.result(Requirements(runs=20, tolerance=0.0))
    assert (found.runs, found.needed, found.contracts) == (36, 40, {})


def test_the_contract_of_an_invented_tool_is_not_written_however_often_it_was_called():
    offered = [ToolDefinition(name="find_order")]
    runs = [
        run(number, call("find_order", {"a": 1}), call("find_ordr", {"a": 1}), offered=offered) for number in range(30)
    ]
    assert list(contracts(runs)) == ["find_order"]


@each_row("name", ["*", "?", "a*", "x: y\n  - z", "\x1b[31m", "${env:HOME}", "a" * 200, "# x", "drop\u2028table"])
def test_a_hostile_name_means_nothing_but_itself(name: str, tmp_path: Path):
    offered = [ToolDefinition(name="find_order"), ToolDefinition(name=name)]
    runs = [
        run(number, call("find_order", {"a": 1}), call(name, {"kind": "x"}), offered=offered) for number in range(30)
    ]
    file = tmp_path / "learned.yaml"
    file.write_text(learned_text(runs))
    config, _ = load_for_replay((), ("defaults.enabled=false",), [str(file)], {})
    assert config.tools
    assert not ToolKinds(config.tools).of("drop_all_tables").judges


def test_a_hostile_service_does_not_get_criteria_for_others():
    criteria = learned(replace(one, service="*") for one in USUAL)
    assert criteria["budget"]["when"] == {"service": "?"}


def test_services_with_like_names_have_criteria_of_their_own():
    text = learned_text(replace(one, service=service) for service in ("Shop A", "shop-a") for one in USUAL)
    assert "name: learned.shop-a.budget\n" in text
    assert "name: learned.shop-a-2.budget\n" in text


def test_runs_that_were_cut_off_are_left_out():
    learner = Learner()
    learner.add(replace(USUAL[0], closed_because="shutdown"))
    learner.add(replace(USUAL[0], incomplete="spans are missing"))
    assert (learner.runs, learner.cut_short, learner.calls) == (2, 2, 0)
    assert learner.result(REQUIREMENTS).text.endswith("criteria: []\n")


SECRETS = {
    "name": "Mei Kovacs",
    "address": "742 Evergreen Terrace",
    "card": "4111 1111 1111 1111",
    "id": "Z-8823-QQ",
    "mail": "mei.kovacs@example.com",
    "text": "She called twice and was very cross about it",
}


@each_row("secret", SECRETS.values(), ids=SECRETS)
def test_a_planted_value_is_never_written(secret: str):
    runs = [
        run(
            number,
            call(
                "find_order",
                {"kind": secret, "list": [secret], "deep": {"level": {secret: secret}}},
                {"found": secret, secret: 1},
            ),
            call("refund", {secret: 1, "target": secret}),
            messages=(user(secret, 0),),
        )
        for number in range(60)
    ]
    text = learned_text(runs)
    assert "refund" in text
    assert secret not in text
    assert not any(word in text for word in secret.split() if len(word) > 4)

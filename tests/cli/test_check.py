"""`check` as a gate: which failures fail it, the baseline of known ones, and the reports beside what it prints."""

import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from tests.captures import CORPUS
from tests.cli.command import Ended, unbroken
from toolgauge.cli.main import ALIASES, commands, main

ROOT = Path(__file__).parents[2]
REFUND = sorted(map(str, (ROOT / "src/toolgauge/demo/traffic").glob("openinference-langgraph.sequence.*")))
RETRY = str(ROOT / "src/toolgauge/demo/traffic/openinference-crewai.retry.otlp.pb")
FAILING = str(CORPUS / "pydantic-ai" / "tool_error.otlp.pb")
HELD = "- {name: amounts, evaluator: tool_call_args, subset: true, tools: [refund_order], expected: [{name: refund_order, args: {amount: %s}}]}"
CASE = {"evaluator": "tool_call_f1", "expected": {"calls": [{"name": "pay"}]}}


def check(*words: str, command: str = "check") -> Ended:
    """Run in this process: most of the time a process takes is its start."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main([*command.split(), *words])
    return Ended(code, out.getvalue(), unbroken(err.getvalue()))


@pytest.fixture
def amounts(tmp_path: Path) -> Callable[..., tuple[str, str]]:
    """Write criteria that expect an amount, and further ones; 42.5 was paid."""

    def write(amount: float, more: str = "") -> tuple[str, str]:
        (tmp_path / "criteria.yaml").write_text(f"{HELD % amount}\n{more}")
        return "--criteria", str(tmp_path / "criteria.yaml")

    return write


@pytest.fixture
def cases(tmp_path: Path) -> str:
    lines = ({"id": name, **CASE, "actual": {"calls": [{"name": name}]}} for name in ("pay", "tell"))
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return str(tmp_path / "cases.jsonl")


def test_twelve_commands_are_listed_and_none_that_was_replaced():
    assert len(commands.list_commands(None)) == 12  # pyright: ignore[reportArgumentType] (not looked at)
    listed = {
        line.split()[0]
        for line in check("--help", command="").out.partition("Commands:")[2].splitlines()
        if line[2:3].strip()
    }
    assert not listed & {name.split()[0] for name in ALIASES}


def test_a_run_that_fails_is_exit_code_1_and_one_that_fails_in_the_shadow_is_not(
    amounts: Callable[..., tuple[str, str]],
):
    assert check(RETRY).code == 0
    failed = check(*amounts(40.0), *REFUND)
    assert (failed.code, failed.err.splitlines()[-1]) == (1, "1 of 1 run failed, `--failed` explains them")
    shadow = "- {name: trial, evaluator: policy, enforce: shadow, forbid: [{tool: refund_order}]}"
    assert check(*amounts(42.5, shadow), *REFUND).code == 0
    assert check(*amounts(40.0), *REFUND, "--fail-on", "nothing").code == 0


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--calls",),
        ("a.otlp", "--proved", "--fail-on", "error"),
        ("a.otlp", "--baseline", "b", "--fail-under", "x=1"),
        ("a.otlp", "--fail-on", "failure"),
        ("a.otlp", "--sarif", "no-such-place/a.sarif"),
        ("CASES", RETRY),
    ],
)
def test_misuse_is_exit_code_2(words: tuple[str, ...], cases: str):
    ended = check(*(cases if word == "CASES" else word for word in words))
    assert (ended.code, ended.out) == (2, "")


def test_only_what_the_record_proves_fails_where_that_is_asked_for(amounts: Callable[..., tuple[str, str]]):
    held = check(*amounts(40.0), *REFUND, "--proved")
    assert (held.code, held.err.splitlines()[-1]) == (0, "0 of 1 run failed; 1 with failures that are not proved")
    assert check(FAILING, "--proved").code == 1


def test_known_failures_pass_new_ones_do_not_and_mended_ones_are_forgotten(
    tmp_path: Path, amounts: Callable[..., tuple[str, str]]
):
    file = tmp_path / "known"
    baseline = ("--baseline", str(file), *REFUND)
    assert check(*amounts(40.0), *baseline).code == 0
    written = file.read_text()
    (known,) = map(json.loads, written.splitlines())
    assert (known["criterion"], known["service"], known["error"]) == ("amounts", "shop-assistant", "exact")
    assert "42.5" not in written
    assert check(*amounts(40.0), *baseline).code == 0
    assert file.read_text() == written
    forbidding = "- {name: no-refund, evaluator: policy, forbid: [{tool: refund_order}]}"
    more = check(*amounts(40.0, forbidding), *baseline)
    assert (more.code, file.read_text()) == (1, written)
    assert "1 known, 1 new, 0 mended" in more.err
    # What was not judged is not mended.
    assert check("--baseline", str(file), RETRY).code == 0
    assert file.read_text() == written
    assert "0 known, 0 new, 1 mended" in check(*amounts(42.5), *baseline).err
    assert (file.read_text(), check(*amounts(40.0), *baseline).code) == ("", 1)


def test_a_baseline_of_cases_holds_their_names(cases: str, tmp_path: Path):
    file = tmp_path / "known"
    assert [check(cases, "--baseline", str(file)).code for _ in range(2)] == [0, 0]
    assert json.loads(file.read_text()) == {"criterion": "tool_call_f1", "case": "tell", "error": "fail"}


def test_a_line_that_is_no_case_fails_whatever_is_known_or_proved(cases: str, tmp_path: Path):
    with Path(cases).open("a") as file:
        file.write("\n{oops")
    words = ("--proved", "--baseline", str(tmp_path / "known"))
    assert [check(cases, *words).code for _ in range(2)] == [1, 1]


def test_sarif_has_a_result_for_each_failure_and_marks_those_that_are_known(
    tmp_path: Path, amounts: Callable[..., tuple[str, str]]
):
    words = (*amounts(40.0), *REFUND, "--sarif", str(tmp_path / "a.sarif"))

    def written(*more: str) -> tuple[dict[str, object], list[dict[str, object]]]:
        check(*words, *more)
        log = json.loads((tmp_path / "a.sarif").read_text())
        assert (log["version"], "2.1.0" in log["$schema"], len(log["runs"])) == ("2.1.0", True, 1)
        return log["runs"][0]["tool"]["driver"], log["runs"][0]["results"]

    driver, (result,) = written()
    assert (driver["name"], driver["rules"]) == (
        "toolgauge",
        [{"id": "amounts", "shortDescription": {"text": "amounts"}}],
    )
    assert (result["ruleId"], result["ruleIndex"], result["level"]) == ("amounts", 0, "error")
    assert "refund_order: amount differs" in str(result["message"])
    assert REFUND[0] in str(result["locations"])
    _, (known,) = written("--baseline", str(tmp_path / "known"))
    assert known["suppressions"] == [{"kind": "external", "justification": "known"}]
    assert known["partialFingerprints"] == result["partialFingerprints"]


def test_a_trace_is_explained_under_all_criteria_with_its_calls_once(amounts: Callable[..., tuple[str, str]]):
    ended = check(*amounts(40.0), *REFUND, RETRY, "--trace", "7eabeccf")
    lines = [line.strip() for line in ended.out.splitlines()]
    assert ended.code == 1
    assert sum(line.startswith("trace ") for line in lines) == 1
    assert sum(line.startswith("turn ") for line in lines) == 3
    assert any(line.startswith("fail ") and "amounts  trajectory" in line for line in lines)
    failed = check(*amounts(40.0), *REFUND, "--failed").out
    assert sum("(passes at" in line for line in failed.splitlines()) == 1


# What was written, and what is written now.
EARLIER = {
    "inspect": ("inspect RETRY", "check --calls RETRY"),
    "replay": ("replay --json FAILING", "check --json --fail-on nothing FAILING"),
    "explain": (
        "explain --failed default.tool_success FAILING",
        "check --criterion default.tool_success FAILING --failed",
    ),
    "score": ("score CASES", "check CASES"),
    "backtest": ("backtest --json FAILING", "check --firings --json FAILING"),
    "labels pull": ("labels pull nowhere", "check --labels nowhere:"),
    "catalogue": ("catalogue RETRY", "compare --agents RETRY"),
    "convert": ("convert CASES", "init --from CASES"),
    "schema": ("schema --of=cases", "validate --schema cases"),
    "components": ("components --json", "validate --components --json"),
    "print-config": ("print-config --set hold.timeout=10s", "validate --print --set hold.timeout=10s"),
}
# These ended with 0 where runs failed.
ENDED_WITH_0 = ("replay", "explain", "backtest")


@pytest.mark.parametrize("name", ALIASES)
def test_an_earlier_command_is_named_on_standard_error_and_prints_what_it_printed(name: str, cases: str):
    places = {"RETRY": RETRY, "FAILING": FAILING, "CASES": cases}
    earlier, now = (check(*(places.get(word, word) for word in words.split()), command="") for words in EARLIER[name])
    first, _, rest = earlier.err.partition("\n")
    assert first == f"`{name}` is now `{ALIASES[name].now}`"
    assert ALIASES[name].now in EARLIER[name][1] or name == "backtest"
    assert (earlier.out, "is now" in rest + now.err) == (
        now.out.replace("check --criterion NAME", "explain CRITERION"),
        False,
    )
    assert earlier.code == (0 if name in ENDED_WITH_0 else now.code)

"""`compare` as people, pipelines and deployment controllers run it."""

import json
import re
from collections.abc import Generator, Iterable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from tests.cli.command import Ended
from tests.recordings.admin import TOKEN, Admin, arm, serving
from tests.recordings.recordings import AS_GOOD, GOOD, START_NS, WORSE, framed, written
from tests.walk.test_causes import conversation
from toolgauge.cli.main import main

LATER_NS = START_NS + 10**14
SUCCESS = ("--only", "criterion=default.tool_success")


def run(*arguments: str) -> Ended:
    """Run in this process: most of the time a process takes is its start."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main(arguments)
    return Ended(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(written(tmp_path_factory.mktemp("recorded") / "good.otlp", GOOD, 150, seed=1))


@pytest.fixture(scope="module")
def worse(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(written(tmp_path_factory.mktemp("recorded") / "worse.otlp", WORSE, 60, seed=2, start_ns=LATER_NS))


@pytest.fixture(scope="module")
def as_good(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(written(tmp_path_factory.mktemp("recorded") / "as_good.otlp", AS_GOOD, 150, seed=3, start_ns=LATER_NS))


@pytest.fixture
def admin() -> Generator[Admin]:
    with serving([arm("1.0", 1000, 950), arm("1.1", 400, 320, first_seen_ns=5)]) as admin:
        yield admin


def test_a_release_that_fell_is_worse(good: str, worse: str):
    ended = run("compare", good, worse)
    assert ended.code == 1
    assert re.search(r"^default\.tool_success, shop-assistant.*: BASE -> NEW$", ended.out, re.MULTILINE)
    means = r"0\.9\d\d of 150 +0\.7\d\d of 60 +-0\.2\d\d \[-0\.\d{3}, -0\.\d{3}\]"
    assert re.search(rf"^  shop_agent +\(all tools\) +{means}  worse$", ended.out, re.MULTILINE)
    assert re.search(
        "^worse: `default.tool_success` of agent `shop_agent` of `shop-assistant` fell from 0.9",
        ended.err,
        re.MULTILINE,
    )


def test_a_release_that_is_as_good_is_no_worse(good: str, as_good: str):
    ended = run("compare", good, as_good, *SUCCESS)
    assert ended.code == 0
    assert ended.err.startswith("no worse: no stream of 1 fell by more than 0.05 (95% confidence)\n")
    assert ended.out.count("no difference seen") >= 1


def models(path: Path, failures: Iterable[tuple[str, bool]], *, first: int) -> str:
    """Write a conversation for each model, and whether its call fails; traces are numbered from `first`."""
    with path.open("wb") as file:
        for number, (model, fails) in enumerate(failures, first):
            file.write(framed(conversation(number, model, fails=fails)))
    return str(path)


@pytest.fixture(scope="module")
def before_and_after(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two thirds of the new recording have another model, of which every second call fails."""
    folder = tmp_path_factory.mktemp("models")
    old = [("large-05", number % 20 == 0) for number in range(150)]
    new = [("large-06", number % 2 == 0) if number % 3 else ("large-05", False) for number in range(90)]
    return models(folder / "before.otlp", old, first=1), models(folder / "after.otlp", new, first=1000)


EXPLAINED = "`gen_ai.response.model` changed from `large-05` to `large-06`; 67% of `NEW` have `large-06`: mean 0.50, the others 0.96"


def test_a_worse_release_is_explained_by_the_property_that_changed(before_and_after: tuple[str, str]):
    ended = run("compare", *before_and_after, *SUCCESS)
    assert ended.code == 1
    assert f"fell from 0.947 to 0.667; explained by: {EXPLAINED}" in ended.err
    assert f"explained by: {EXPLAINED}" in run("compare", *before_and_after, *SUCCESS, "--markdown").out
    (stream, *_) = json.loads(run("compare", *before_and_after, *SUCCESS, "--json").out)["streams"]
    (cause,) = stream["explained_by"]
    assert (cause["sentence"], cause["share"]) == (EXPLAINED, pytest.approx(2 / 3))
    assert cause["changes"] == [{"property": "gen_ai.response.model", "of": None, "old": "large-05", "new": "large-06"}]


@pytest.mark.parametrize("by", ["model", "gen_ai.response.model"])
def test_recordings_are_split_by_a_recorded_property_which_does_not_explain_itself(
    before_and_after: tuple[str, str], by: str
):
    ended = run("compare", *before_and_after, "--by", by, *SUCCESS)
    assert ended.code == 1
    assert ended.err.startswith("comparing `large-06` of `shop` with `large-05`\n")
    assert "explained by" not in ended.err


def test_versions_can_be_named(good: str, worse: str):
    ended = run("compare", good, worse, "--by", "service.version", "--base", "1.1", "--new", "1.0", "--json")
    assert json.loads(ended.out)["versions"] == [{"service": "shop-assistant", "base": "1.1", "new": "1.0"}]
    unknown = run("compare", good, worse, "--by", "service.version", "--base", "2.0")
    assert (unknown.code, unknown.out) == (2, "")
    assert unknown.err == "error: no trajectory has `2.0` as `service.version`\nhint: there is `1.0`, `1.1`\n"


def test_a_filter_that_matches_nothing_is_an_error(good: str, as_good: str):
    ended = run("compare", good, as_good, "--only", "tool=refund_ordr")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "error: nothing that was scored has the tool `refund_ordr`\nhint: did you mean `refund_order`?\n"
    )


def test_the_object_holds_all_that_a_program_needs(good: str, worse: str):
    ended = run(
        "compare", good, worse, "--json", "--only", "criterion=default.tool_success", "--only", "tool=refund_order"
    )
    found = json.loads(ended.out)
    asked = (found["verdict"], found["margin"], found["confidence"], found["test"])
    assert asked == ("worse", 0.05, 0.95, "fixed_sample")
    (stream,) = found["streams"]
    assert {name: stream[name] for name in ("service", "agent", "tool", "criterion", "level")} == {
        "service": "shop-assistant",
        "agent": "shop_agent",
        "tool": "refund_order",
        "criterion": "default.tool_success",
        "level": "call",
    }
    assert (stream["base"]["version"], stream["base"]["conversations"], stream["base"]["errors"]) == ("BASE", 150, 0)
    assert stream["interval"][0] < stream["difference"] < stream["interval"][1] < 0
    assert (stream["verdict"], stream["decides"], stream["within_margin"]) == ("worse", True, False)


def test_a_process_is_asked_again_and_again(admin: Admin):
    ended = run("compare", "--live", admin.url)
    assert ended.code == 1
    assert ended.err.startswith("comparing `1.1` of `shop` with `1.0`\n")
    admin.arms = [arm("1.0", 1000, 950), arm("1.1", 3, 3, first_seen_ns=5)]
    waiting = run("compare", "--live", f"{admin.url}/comparison")
    assert waiting.code == 3
    assert "more conversations of `1.0` and" in waiting.err
    admin.arms = [arm("1.0", 5000, 4750), arm("1.1", 5000, 4760, first_seen_ns=5)]
    assert run("compare", "--live", admin.url).code == 0


def test_the_token_is_sent(admin: Admin, tmp_path: Path):
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    run("compare", "--live", admin.url, "--token-file", str(tmp_path / "token"))
    assert admin.authorization == f"Bearer {TOKEN}"
    missing = run("compare", "--live", admin.url, "--token-file", str(tmp_path / "none"))
    assert (missing.code, missing.out) == (2, "")
    assert missing.err.startswith("error: cannot read the token file")


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (401, b"", "refuses: HTTP status 401\nhint: `--token-file` names"),
        (404, b'{"error": "nothing is watched"}', "refuses: nothing is watched\n"),
        (200, b"<html>", "does not answer as toolgauge does"),
        (200, b'{"arms": [{"version": 1}]}', "does not answer as toolgauge does"),
    ],
)
def test_an_answer_of_another_kind_is_no_verdict(admin: Admin, status: int, body: bytes, message: str):
    admin.status, admin.body = status, body
    ended = run("compare", "--live", admin.url)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", "b", "--base", "1"), "they go with `--by` or `--live`"),
        (("a", "--live", "http://h"), "`--live` takes neither files nor `--by`"),
        (("--live", "ftp://h"), "`--live` must be a URL"),
        (("a", "b", "--only", "colour=red"), "no streams by `colour`"),
        (("a", "b", "--only", "tool"), "`--only` takes NAME=VALUE"),
        (("/nowhere.otlp", "/nowhere.otlp"), "no such file: `/nowhere.otlp`"),
    ],
)
def test_misuse_is_no_verdict(arguments: tuple[str, ...], message: str):
    ended = run("compare", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err


def failing(path: Path, *, first: int, failing: int, of: int) -> str:
    """Write runs of which the first ones fail in a call; each has an id of its own in its error."""
    return models(path, [("large-05", number < failing) for number in range(of)], first=first)


def test_kinds_of_failure_are_new_gone_or_more_often_with_an_example(tmp_path: Path):
    none = failing(tmp_path / "none.otlp", first=1, failing=0, of=40)
    few = failing(tmp_path / "few.otlp", first=1000, failing=3, of=60)
    many = failing(tmp_path / "many.otlp", first=2000, failing=20, of=60)
    said = "default.tool_success of find_order, shop, as in"
    for base, new, words in (
        (none, many, "new in NEW: 20 runs (33 %)"),
        (few, none, "gone since BASE: 3 runs (5 %)"),
        (few, many, "more often: 3 -> 20 runs (33 %)"),
        (many, few, "less often: 20 -> 3 runs (5 %)"),
    ):
        lines = run("compare", base, new).out.splitlines()
        assert [line[:-9] for line in lines if line.startswith(f"  {words}: ")] == [f"  {words}: {said}"]
        assert lines.count("kinds of failure") == 1
    (kind,) = json.loads(run("compare", few, many, "--json").out)["failures"]
    assert kind["direction"] == "more_often"
    assert [(kind[side]["runs"], kind[side]["of"]) for side in ("base", "new")] == [(3, 60), (20, 60)]
    markdown = run("compare", few, many, "--markdown").out
    assert (
        "| <code>more often&#58; 3 -&#62; 20 runs &#40;33 &#37;&#41;</code> | <code>default.tool_success</code> |"
        in markdown
    )

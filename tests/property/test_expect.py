"""What holds for references made of any run: it meets them itself, and no text in it changes their form."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.authoring.written import document_of, loaded, run_of, score, text_of
from tests.property.test_compare import VALUES, containers
from tests.score.support import tool_call, trajectory, user
from toolgauge.authoring.documents import reference_lines
from toolgauge.authoring.runs import Fault, key_of
from toolgauge.config.references import read_references
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.literals import clean

HOSTILE = st.sampled_from(
    ["\n---\n- name: x", "# no comment", "a: b", "*", "wr?te", "&anchor", "!!python/object", "${env:HOME}", "$$", "\u2028",
     "\x85", "\ufeff", "\x1b[2J", '"]', "a.b[*]", "'", "{}", "- ", "", "\ud800", "key" * 60]
)  # fmt: skip
# Runs with names that UTF-8 cannot hold are left out before.
CASES = HOSTILE.filter(lambda case: clean(case) == case)
NAMES = st.one_of(st.text(min_size=1, max_size=8), HOSTILE).filter(lambda name: bool(name) and clean(name) == name)
ARGUMENTS = st.dictionaries(st.one_of(NAMES, HOSTILE, st.just("order_id")), st.one_of(VALUES, HOSTILE), max_size=3)
CALLS = st.lists(st.tuples(NAMES, ARGUMENTS), max_size=4)


def _run(calls: list[tuple[str, JsonObject]], case: Json = None):
    made = [tool_call(f"do {name}"[:200], args) for name, args in calls]
    attributes = {} if case is None else {"eval.case.id": case}
    return trajectory(*made, messages=(user("please", 0),), attributes=attributes)  # pyright: ignore[reportArgumentType]


@settings(max_examples=20)
@given(CALLS, CASES)
def test_a_run_meets_the_reference_that_is_made_of_it(calls: list[tuple[str, JsonObject]], case: str):
    made = _run(calls, case or "case")
    with tempfile.TemporaryDirectory() as folder:
        (criterion,) = loaded(document_of([run_of(made)]), Path(folder))
    assert score(criterion, made).value == 1.0
    assert criterion.when.attributes == {"eval.case.id": case or "case"}


@given(CALLS, CALLS, CASES)
def test_each_line_of_a_reference_file_is_a_case(
    calls: list[tuple[str, JsonObject]], others: list[tuple[str, JsonObject]], name: str
):
    runs = [_run(calls, f"1{name}"), _run(others, f"2{name}")]
    lines = list(reference_lines(document_of(*([run_of(one)] for one in runs), is_one_criterion=True)))
    cases, problems = read_references("\n".join(lines).encode(), "cases.jsonl")
    assert (problems, list(cases)) == ((), [f"1{name}", f"2{name}"])


@settings(max_examples=20)
@given(CALLS, st.sets(st.integers(0, 3)))
def test_a_failing_run_fails_the_case_that_is_made_of_it(calls: list[tuple[str, JsonObject]], at_fault: set[int]):
    made = _run(calls)
    faults = [
        Fault(criterion="policy", explanation="forbidden", call=key_of(call), is_default=False)
        for number, call in enumerate(made.calls)
        if number in at_fault
    ]
    with tempfile.TemporaryDirectory() as folder:
        (criterion,) = loaded(document_of([run_of(made, *faults)], is_promoted=True), Path(folder))
    assert score(criterion, made).value < 1.0


SECRETS = ["sk-" + "a1B2" * 8, "4111111111111111", "ann.lee@example.com"]
WITH_SECRETS: st.SearchStrategy[Json] = st.recursive(
    st.one_of(st.sampled_from(SECRETS), st.sampled_from(["as the agent wrote it", "word", 7, None])),
    containers,
    max_leaves=8,
)


@given(WITH_SECRETS, st.integers(1, 3), st.sets(st.just("policy")))
def test_a_planted_secret_is_never_written(value: Json, runs: int, failed: set[str]):
    made = _run([("pay", {"x": value})], "case")
    key = key_of(made.calls[0])
    faults = [Fault(criterion=one, explanation="forbidden", call=key, is_default=False) for one in failed]
    written = document_of([run_of(made, *faults)] * runs, is_promoted=bool(failed))
    text = text_of(written) + "".join(reference_lines(written))
    assert not any(secret in text for secret in SECRETS)

"""`expect` as people run it: recordings of several frameworks in, criteria out that these runs meet and changed ones do not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.cli.command import run
from tests.mcp_server.support import Called, trace_id, write_runs
from toolgauge.cli.main import commands
from toolgauge.model.errors import ConfigError, RecordingError

CORPUS = Path(__file__).parent.parent / "corpus"
SEQUENCES = ("pydantic-ai/sequence3", "strands/double_sequence3", "google-adk/sequence3_full", "openai-v2/sequence3")
SEQUENCE = str(CORPUS / "pydantic-ai" / "sequence3.otlp.pb")
TRACE = "6238b4aafb9461c7d357aac519e978af"


def expect(*arguments: str) -> Result:
    """Run `toolgauge expect` in this process; errors are raised."""
    return CliRunner().invoke(commands, ["expect", *arguments], catch_exceptions=False, prog_name="toolgauge")


def refused(*arguments: str) -> list[str]:
    """Run `toolgauge expect` in this process and return the lines of its error."""
    with pytest.raises(RecordingError) as refusal:
        expect(*arguments)
    hint = [] if refusal.value.hint is None else [f"hint: {refusal.value.hint}"]
    return [*f"error: {refusal.value.message}".splitlines(), *hint]


def outcomes(criteria: Path, *files: str) -> list[str]:
    """Replay recordings against a criteria file and return what became of its criteria."""
    result = CliRunner().invoke(
        commands,
        ["replay", "--set", "defaults.enabled=false", "--criteria", str(criteria), "--json", *files],
        catch_exceptions=False,
    )
    return [json.loads(line)["outcome"] for line in result.stdout.splitlines()]


def with_attributes(name: str, folder: Path, **attributes: str) -> str:
    """Copy a recorded run, with further attributes on its resource."""
    request = ExportTraceServiceRequest.FromString((CORPUS / f"{name}.otlp.pb").read_bytes())
    for resource in request.resource_spans:
        for key, value in attributes.items():
            resource.resource.attributes.add(key=key.replace("_", ".")).value.string_value = value
    file = folder / f"{name.replace('/', '-')}-{'-'.join(attributes.values())}.otlp.pb"
    file.write_bytes(request.SerializeToString())
    return str(file)


def files_of(name: str) -> list[str]:
    return [str(file) for file in sorted(CORPUS.glob(f"{name}.*.pb"))]


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_run_of_each_framework_meets_the_reference_made_of_it(name: str, tmp_path: Path):
    criteria = tmp_path / "criteria.yaml"
    assert expect(*files_of(name), "--tools", "all", "-o", str(criteria)).exit_code == 0
    assert set(outcomes(criteria, *files_of(name))) == {"pass"}


def test_runs_of_three_frameworks_with_the_same_input_are_one_task(tmp_path: Path):
    criteria = tmp_path / "criteria.yaml"
    files = [
        *files_of("pydantic-ai/sequence3"),
        *files_of("strands/double_sequence3"),
        *files_of("openai-v2/sequence3"),
    ]
    expect(*files, "--tools", "all", "-o", str(criteria))
    lines = criteria.read_text().splitlines()
    assert "  # the runs are of several services: openai-v2-demo, pydantic-ai-demo, strands-demo" in lines
    assert [line.strip() for line in lines if "- name: " in line] == [
        "- name: expected-calls",
        "- name: get_user",
        "- name: get_weather",
        "- name: send_email",
    ]
    assert outcomes(criteria, *files) == ["pass", "pass", "pass"]
    criteria.write_text(criteria.read_text().replace("user_id: 7", "user_id: 8"))
    assert outcomes(criteria, *files) == ["fail", "fail", "fail"]


def test_the_criteria_of_a_run_on_the_screen():
    result = expect(SEQUENCE)
    assert result.stdout.splitlines() == [
        "# Written by `toolgauge expect` from 1 run. It holds values of recorded runs: read it before you share it.",
        "criteria:",
        f"  # 1 run: trace {TRACE}",
        "  - name: expected-calls",
        "    evaluator: tool_call_f1",
        "    # every run is held against this: a `when` names those that are meant",
        "    tools: writes",
        "    expected:",
        "      - name: send_email",
        "        args: {}",
        "    arguments:",
        "      send_email.body: ignore  # free text",
        "      send_email.subject: ignore  # free text",
        "      send_email.to: ignore  # looks like a secret or an address",
    ]
    assert result.stderr == "1 case from 1 run: 1 call expected, 0 of them optional, 3 arguments left free\n"


def test_runs_of_several_cases_become_a_reference_file(tmp_path: Path):
    files = [
        with_attributes("pydantic-ai/sequence3", tmp_path, eval_case_id="mail"),
        with_attributes("pydantic-ai/one_call", tmp_path, eval_case_id="look"),
    ]
    (tmp_path / "made").mkdir()
    criteria, cases = tmp_path / "made" / "criteria.yaml", tmp_path / "cases.jsonl"
    expect(*files, "--references", str(cases), "-o", str(criteria))
    assert [json.loads(line)["case"] for line in cases.read_text().splitlines()] == ["look", "mail"]
    assert "    reference: {file: ../cases.jsonl, key: eval.case.id}" in criteria.read_text().splitlines()
    assert outcomes(criteria, *files) == ["pass", "pass"]


def test_a_reference_file_with_other_lines_is_replaced_by_force_only(tmp_path: Path):
    file = with_attributes("pydantic-ai/sequence3", tmp_path, eval_case_id="mail")
    cases = tmp_path / "cases.jsonl"
    words = (file, "--references", str(cases), "-o", str(tmp_path / "criteria.yaml"))
    assert f"wrote `{cases}`\nwrote `{tmp_path / 'criteria.yaml'}`\n" in expect(*words).stderr
    first = cases.read_text()
    expect(*words)
    corrected = first.replace("mail", "corrected")
    cases.write_text(corrected)
    refused = CliRunner().invoke(commands, ["expect", *words])
    assert isinstance(refused.exception, ConfigError)
    assert f"`{cases}` holds other cases" in refused.exception.message
    assert cases.read_text() == corrected
    expect(*words, "--force")
    assert cases.read_text() == first


def test_a_run_that_fails_a_criterion_is_no_reference(tmp_path: Path):
    (tmp_path / "strict.yaml").write_text("- {name: no-mail, evaluator: policy, forbid: [{tool: send_email}]}")
    assert refused(SEQUENCE, "--criteria", str(tmp_path / "strict.yaml")) == [
        "error: no run of the recording can be a reference:",
        f"  trace {TRACE}: it fails `no-mail`",
    ]


def test_without_criteria_a_run_that_fails_a_default_one_is_no_reference(tmp_path: Path):
    paid = Called(tool="pay", arguments={"amount": 20})
    failed = Called(tool="pay", arguments={"amount": 20}, error="timeout")
    file = str(write_runs(tmp_path / "runs.jsonl", [[paid], [failed], [failed, paid]]))
    result = expect(file, "--key", "service.name")
    assert "from 2 runs" in result.stdout
    assert result.stderr.splitlines()[0] == f"left out: trace {trace_id(1)}: it fails `default.tool_success`"
    verdicts = ["trace_id,verdict", *(f"{trace_id(number)},passed" for number in range(3))]
    (tmp_path / "verdicts.csv").write_text("\n".join(verdicts))
    labels = ("--labels", str(tmp_path / "verdicts.csv"))
    assert "from 3 runs" in expect(file, "--key", "service.name", *labels).stdout


def test_a_failing_run_is_promoted_to_a_case_that_it_fails(tmp_path: Path):
    (tmp_path / "strict.yaml").write_text("- {name: no-mail, evaluator: policy, forbid: [{tool: send_email}]}")
    file = with_attributes("pydantic-ai/sequence3", tmp_path, eval_case_id="mail")
    criteria = tmp_path / "case.yaml"
    result = expect(file, "--promote", "--criteria", str(tmp_path / "strict.yaml"), "-o", str(criteria))
    assert result.stderr.endswith("1 call to correct\n")
    assert "      # CORRECT: no-mail: " in criteria.read_text()
    assert outcomes(criteria, file) == ["fail"]


def test_an_unknown_trace_is_answered_with_those_near_it():
    ended = run("expect", SEQUENCE, "--trace", TRACE[:-1] + "0")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines() == [
        f"error: no trace `{TRACE[:-1]}0` in the recording",
        f"hint: there is `{TRACE}`",
    ]


def test_a_conversation_of_several_traces_is_one_run(tmp_path: Path):
    criteria = tmp_path / "criteria.yaml"
    files = sorted(map(str, CORPUS.glob("pydantic-ai/multi_turn.*.otlp.pb")))
    expect(*files, "--tools", "all", "-o", str(criteria))
    assert "    scope: conversation" in criteria.read_text().splitlines()
    assert outcomes(criteria, *files) == ["pass"]


def test_runs_of_several_tasks_without_a_case_are_listed():
    lines = refused(SEQUENCE, str(CORPUS / "pydantic-ai" / "one_call.otlp.pb"))
    assert lines[0] == "error: the users of these runs wrote different texts, and no attribute names the tasks:"
    assert lines[-1].startswith("hint: name the runs of one task with `--trace ID --trace ID`")


def pay(*amounts: int, tool: str = "create_payment") -> list[list[Called]]:
    return [[Called(tool=tool, arguments={"to": "A-17", "amount": amount})] for amount in amounts]


def test_a_criterion_that_accepts_every_run_is_named(tmp_path: Path):
    file = str(write_runs(tmp_path / "runs.jsonl", pay(*range(12))))
    note = "note: `expect-shop` accepts every one of the 12 runs: it will find nothing in runs like these"
    assert expect(file, "--key", "service.name").stderr.splitlines()[-1] == note
    references = str(tmp_path / "references.jsonl")
    shared = expect(file, "--key", "service.name", "--references", references, "-o", str(tmp_path / "criteria.yaml"))
    assert shared.stderr.splitlines()[-1] == note.replace("expect-shop", "expected-calls")


def test_a_criterion_that_rejects_a_run_or_has_only_one_is_not_named(tmp_path: Path):
    file = str(write_runs(tmp_path / "runs.jsonl", [*pay(20, 20), *pay(20, tool="delete_payment")]))
    good = [option for number in (0, 1) for option in ("--trace", trace_id(number))]
    assert "note:" not in expect(file, *good).stderr
    one = str(write_runs(tmp_path / "one.jsonl", pay(20)))
    assert "note:" not in expect(one, "--key", "service.name").stderr


def test_runs_from_standard_input_are_tried_too(tmp_path: Path):
    runs = write_runs(tmp_path / "runs.jsonl", pay(20, 25)).read_bytes()
    command = [sys.executable, "-m", "toolgauge", "expect", "-", "--key", "service.name"]
    ended = subprocess.run(command, input=runs, capture_output=True, timeout=300, check=True)
    assert b"accepts every one of the 2 runs" in ended.stderr

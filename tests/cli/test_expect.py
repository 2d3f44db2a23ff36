"""`expect` as people run it: recordings of several frameworks in, criteria out that these runs meet and changed ones do not."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.mcp_server.support import Called, write_runs
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


def test_a_failing_run_is_promoted_to_a_case_that_it_fails(tmp_path: Path):
    (tmp_path / "strict.yaml").write_text("- {name: no-mail, evaluator: policy, forbid: [{tool: send_email}]}")
    file = with_attributes("pydantic-ai/sequence3", tmp_path, eval_case_id="mail")
    criteria = tmp_path / "case.yaml"
    result = expect(file, "--promote", "--criteria", str(tmp_path / "strict.yaml"), "-o", str(criteria))
    assert result.stderr.endswith("1 call to correct\n")
    assert "      # CORRECT: no-mail: " in criteria.read_text()
    assert outcomes(criteria, file) == ["fail"]


def pay(*amounts: int, tool: str = "create_payment") -> list[list[Called]]:
    return [[Called(tool=tool, arguments={"to": "A-17", "amount": amount})] for amount in amounts]


def test_a_criterion_that_accepts_every_run_is_named(tmp_path: Path):
    file = str(write_runs(tmp_path / "runs.jsonl", pay(*range(12))))
    note = "note: `expect-shop` accepts every one of the 12 runs: it will find nothing in runs like these"
    assert expect(file, "--key", "service.name").stderr.splitlines()[-1] == note
    references = str(tmp_path / "references.jsonl")
    shared = expect(file, "--key", "service.name", "--references", references, "-o", str(tmp_path / "criteria.yaml"))
    assert shared.stderr.splitlines()[-1] == note.replace("expect-shop", "expected-calls")

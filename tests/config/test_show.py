"""`print-config`: everything but secrets, and it can be read again."""

from pathlib import Path

from tests.config.files import load_criteria, loaded, write
from toolgauge.config.load import shown


def test_what_is_shown_reads_as_the_same_configuration(tmp_path: Path):
    path = write(
        tmp_path / "in" / "c.yaml",
        """\
        receivers: {otlp: {protocols: {grpc: {endpoint: "localhost:1", max_recv_msg_size: 1000B}}}}
        exporters:
          prometheus: null
          otlp: {endpoint: "a:1", timeout: 90s, retry: {max_elapsed_time: 0s}, compression: none}
        annotate: off
        hold: {timeout: 1500ms}
        tool_definitions: ["a*", "on", "12", "$$x", "2024-05-01"]
        criteria_files: ["more/*.yaml"]
        criteria:
          - name: a
            evaluator: tool_call_args
            expected: [{name: x, args: {on: off, n: "7", price: "$$5", none: null, f: 1.0, deep: [{a: "0123"}]}}]
          - name: b
            evaluator: tool_call_f1
            reference: {file: cases.jsonl, key: k}
        """,
    )
    write(tmp_path / "in" / "cases.jsonl", '{"case": "1", "expected": []}\n')
    write(tmp_path / "in" / "more" / "d.yaml", "- {name: d, evaluator: x}\n")
    config = loaded(path)
    again = loaded(write(tmp_path / "elsewhere" / "again.yaml", shown(config)))
    assert shown(again) == shown(config)
    assert again.model_copy(update={"criteria": ()}) == config.model_copy(update={"criteria": ()})
    assert [entry.canonical() for entry in load_criteria(again, {})] == [
        entry.canonical() for entry in load_criteria(config, {})
    ]


def test_secrets_are_not_shown():
    config = loaded(
        overrides=("exporters.otlp={endpoint: 'http://user:hunter2@c:4317', headers: {authorization: Bearer hunter3}}",)
    )
    assert "hunter" not in shown(config)
    assert "authorization: <redacted>" in shown(config)
    assert "endpoint: http://<redacted>@c:4317" in shown(config)
    assert "hunter3" not in repr(config)


def test_the_query_of_a_url_is_not_shown_where_some_backends_want_the_key():
    config = loaded(overrides=("exporters.otlp={traces_endpoint: 'https://c/v1/traces?key=hunter2', protocol: http}",))
    assert "traces_endpoint: https://c/v1/traces?<redacted>\n" in shown(config)

"""`toolgauge init` as a new user types it: two files that run as they are."""

import json
from itertools import count, islice
from pathlib import Path

import pytest
import yaml

from tests.cli.command import run
from tests.recordings.recordings import framed
from tests.wire.support import CORPUS, long_ago, post, serving, until
from toolgauge.authoring.starter import packs
from toolgauge.demo.sample_sender import Release, drawn, moved_to, recordings
from toolgauge.model.json import JsonObject

RECORDED = [
    found for found in recordings() if found.framework in ("openinference-langgraph", "pydantic-ai", "google-adk")
]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record runs of three frameworks."""
    times = count(1_800_000_000_000_000_000, 60_000_000_000)
    bodies = islice(drawn(RECORDED, Release(version="1.0", failures=0.0), seed=1, clock=lambda: next(times)), 110)
    file = tmp_path_factory.mktemp("three") / "three.otlp"
    file.write_bytes(b"".join(map(framed, bodies)))
    return file


@pytest.mark.parametrize("pack", packs())
def test_a_pack_is_a_valid_configuration_and_judges_real_traffic(pack: str, tmp_path: Path):
    made = run("init", "--pack", pack, cwd=tmp_path)
    assert made.code == 0, made.err
    assert made.err.endswith("next: toolgauge serve --config toolgauge.yaml\n")
    config = tmp_path / "toolgauge.yaml"
    validated = run("validate", "--config", str(config))
    assert (validated.code, validated.err) == (0, "")
    assert f"pack.{pack}." in validated.out
    replayed = run("check", "--fail-on", "nothing", "--config", str(config), str(CORPUS / "openinference-langgraph"))
    assert replayed.code == 0, replayed.err
    assert f"pack.{pack}." in replayed.out


def test_from_a_recording_of_three_frameworks_to_scores_in_serve(three: Path, tmp_path: Path):
    made = run("init", str(three), "--pack", "customer-service", "--directory", str(tmp_path / "first"))
    assert made.code == 0, made.err
    config = tmp_path / "first" / "toolgauge.yaml"
    tools = yaml.safe_load(config.read_text())["tools"]
    assert [name for name, one in tools.items() if one["changes_state"]] == [
        "charge_card",
        "refund_order",
        "send_email",
    ]
    assert tools["list_orders"]["requires"] == {"call": "find_customer"}
    (langgraph,) = [
        found for found in RECORDED if (found.framework, found.scenario) == ("openinference-langgraph", "sequence")
    ]
    with serving(
        tmp_path, "assemble.idle_timeout=1s", "assemble.run_end_grace=1s", options=("--config", str(config))
    ) as toolgauge:
        for body in moved_to(long_ago(), langgraph):
            assert post(toolgauge.http_port, body)[0] == 200
        until(lambda: "learned.shop-assistant.budget" in toolgauge.exposition(), "a score of a learned criterion")


def test_contracts_come_from_the_answer_of_an_mcp_server(tmp_path: Path):
    schema: JsonObject = {"type": "object", "required": ["id"]}
    tools: list[JsonObject] = [
        {
            "name": "find",
            "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": True, "idempotentHint": True},
        },
        {
            "name": "pay",
            "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": False},
            "outputSchema": schema,
        },
        {
            "name": "drop",
            "inputSchema": {"type": "object"},
            "annotations": {"destructiveHint": True, "idempotentHint": True},
        },
        {"name": "other", "inputSchema": {"type": "object"}},
    ]
    (tmp_path / "answer.json").write_text(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}}))
    assert run("init", "--mcp", "answer.json", cwd=tmp_path).code == 0
    written = yaml.safe_load((tmp_path / "toolgauge.yaml").read_text())
    assert written["tools"] == {
        "find": {"changes_state": False},
        "pay": {"changes_state": True, "result": schema},
        "drop": {"changes_state": True, "idempotent": True},
    }
    assert written["tool_definitions"] == [str(tmp_path / "answer.json")]
    assert run("validate", "--config", str(tmp_path / "toolgauge.yaml")).code == 0


def test_files_that_exist_are_kept_unless_forced(tmp_path: Path):
    (tmp_path / "criteria.yaml").write_text("mine")
    refused = run("init", "--pack", "retrieval", cwd=tmp_path)
    assert refused.code == 2
    assert (
        "error: `criteria.yaml` would be overwritten\nhint: `--force` overwrites, `--directory` goes elsewhere"
        in refused.err
    )
    assert (tmp_path / "criteria.yaml").read_text() == "mine"
    assert not (tmp_path / "toolgauge.yaml").exists()
    assert run("init", "--pack", "retrieval", "--force", cwd=tmp_path).code == 0
    assert "pack.retrieval.searches" in (tmp_path / "criteria.yaml").read_text()

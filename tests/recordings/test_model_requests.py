"""Requests to providers of models, of which only HTTP is recorded, are named with the packages that record tool calls."""

import json
from pathlib import Path

import pytest

from tests.captures import Captured
from tests.recordings.corpus import CORPUS
from toolgauge.config.model import Config
from toolgauge.recordings.doctor import Doctor
from toolgauge.recordings.recorded_requests import read, scorecards
from toolgauge.recordings.stats import ModelRequests, Tally, requests_lines, requests_object
from toolgauge.service.pipeline_factory import offline_pipeline

HTTPX, UNDICI = "opentelemetry.instrumentation.httpx", "@opentelemetry/instrumentation-undici"


def left_over(*files: Path) -> list[ModelRequests]:
    tally = Tally()
    doctor = Doctor(tally)
    make = offline_pipeline(Config(), (), tally.recognizer)
    for card in scorecards(tally.counted(read([*map(str, files)], lambda _size: None)), make):
        doctor.add(card.trajectory)
    return tally.unread_tools.model_requests.left_over(tally.services_with_runs)


def recorded(folder: Path, scope: str, kind: int = 3, service: str = "shop", **attributes: str) -> Path:
    """Record one span as OTLP JSON; `_` in a key stands for a dot."""
    span = {
        "traceId": "ab" * 16,
        "spanId": "cd" * 8,
        "name": "POST",
        "kind": kind,
        "startTimeUnixNano": "1700000000000000000",
        "endTimeUnixNano": "1700000001000000000",
        "attributes": [_pair(key.replace("_", "."), value) for key, value in attributes.items()],
    }
    resource = {"attributes": [_pair("service.name", service)]}
    group = {"resource": resource, "scopeSpans": [{"scope": {"name": scope}, "spans": [span]}]}
    file = folder / "spans.json"
    file.write_text(json.dumps({"resourceSpans": [group]}))
    return file


def _pair(key: str, value: str) -> dict[str, object]:
    return {"key": key, "value": {"stringValue": value}}


@pytest.mark.parametrize(
    ("scope", "url", "host", "package"),
    [
        (HTTPX, "https://api.openai.com/v1/responses", "api.openai.com", "openinference-instrumentation-openai"),
        (HTTPX, "https://api.anthropic.com:443/v1/messages", "api.anthropic.com", "openinference-instrumentation-anthropic"),
        (HTTPX, "https://mine.openai.azure.com/x", "*.openai.azure.com", "opentelemetry-instrumentation-openai-v2"),
        (
            UNDICI,
            "https://bedrock-runtime.eu-west-1.amazonaws.com/model/m/converse",
            "bedrock-runtime.*.amazonaws.com",
            "@arizeai/openinference-instrumentation-bedrock",
        ),
    ],
)  # fmt: skip
def test_packages_for_a_model_client_are_those_of_its_language(
    tmp_path: Path, scope: str, url: str, host: str, package: str
):
    (found,) = left_over(recorded(tmp_path, scope, http_request_method="POST", url_full=url))
    assert (found.host, found.spans) == (host, 1)
    assert package in found.packages
    assert f"`{package}`" in "\n".join(requests_lines(found))
    assert requests_object(found)["model_requests"] == {"host": host, "spans": 1, "packages": [*found.packages]}


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        (2, {"http_request_method": "POST", "url_full": "https://api.openai.com/v1/responses"}),
        (3, {"http_request_method": "POST", "url_full": "https://api.openai.com/v1/embeddings"}),
        (3, {"http_request_method": "POST", "server_address": "api.openai.com", "url_path": "/v1/embeddings"}),
        (3, {"http_request_method": "GET", "url_full": "https://api.openai.com/v1/models"}),
        (3, {"http_request_method": "POST", "url_full": "https://api.openai.com.example.org/v1/responses"}),
        (3, {"http_request_method": "GET", "url_full": "https://example.org/?u=https://api.openai.com/"}),
        (3, {"db_system": "redis", "server_address": "api.openai.com"}),
    ],
)
def test_other_spans_are_no_requests_to_a_model(tmp_path: Path, kind: int, attributes: dict[str, str]):
    assert left_over(recorded(tmp_path, HTTPX, kind, **attributes)) == []


def test_a_service_that_records_its_model_calls_needs_no_package(tmp_path: Path):
    url = "https://api.openai.com/v1/responses"
    beside = recorded(tmp_path, HTTPX, service="pydantic-ai-demo", http_request_method="POST", url_full=url)
    assert left_over(beside, CORPUS / "pydantic-ai" / "one_call.otlp.pb") == []


def test_no_capture_of_a_producer_is_sent_after_another_package(captured: Captured):
    assert left_over(*captured.files()) == []

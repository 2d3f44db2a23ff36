"""A backend on loopback that reads scores with the models of the vendor's own client, and answers as a test asks it to.

    python vendor.py VENDOR PORT

Runs in the environment `vendors`. `POST /_answers` takes the names of the next answers, in turn, and forgets what was
seen; after them, all is well. `GET /_seen` shows the scores that were taken, the requests that were refused, and what
the models did not take.
"""

import contextlib
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

FAULTS = {"401": 401, "404": 404, "413": 413, "429": 429, "503": 503, "slow": 200}
SLOW_S = 3


def _strict(parse, model, body):
    """Read as the client does, which allows other fields, and refuse these."""
    read = parse(model, body)
    assert not read.model_extra, f"fields that the client does not have: {sorted(read.model_extra)}"
    return read


def langfuse(method, path, body):
    from langfuse.api.core.pydantic_utilities import parse_obj_as
    from langfuse.api.scores.types.create_score_request import CreateScoreRequest

    assert (method, path) == ("POST", "/api/public/scores")
    for one in body:
        score = _strict(parse_obj_as, CreateScoreRequest, one)
        assert score.id
        assert score.timestamp.tzinfo
        assert isinstance(score.value, str) == (score.data_type != "NUMERIC")
        yield (score.id, score.timestamp.isoformat()), (score.observation_id or "", score.name, score.value)


def langsmith(method, path, body):
    from langsmith.schemas import FeedbackCreate

    assert (method, path.removeprefix("/api/v1")) == ("POST", "/feedback")
    unknown = set(body) - set(FeedbackCreate.model_fields)
    assert not unknown, f"fields that the client does not have: {sorted(unknown)}"
    # The client leaves out what is null.
    feedback = FeedbackCreate.model_validate({"trace_id": None, **body})
    assert feedback.run_id
    yield str(feedback.id), (str(feedback.run_id), feedback.key, feedback.score)


def opik(method, path, body):
    from opik.rest_api.core.pydantic_utilities import parse_obj_as
    from opik.rest_api.types.feedback_score_batch_item import FeedbackScoreBatchItem
    from opik.rest_api.types.feedback_score_batch_item_thread import FeedbackScoreBatchItemThread

    kind = path.removeprefix("/v1/private/").removesuffix("/feedback-scores")
    assert method == "PUT"
    assert kind in {"spans", "traces", "traces/threads"}, path
    assert set(body) == {"scores"}
    for one in body["scores"]:
        of_thread = kind == "traces/threads"
        score = _strict(parse_obj_as, FeedbackScoreBatchItemThread if of_thread else FeedbackScoreBatchItem, one)
        target = score.thread_id if of_thread else str(UUID(score.id))
        yield (kind, target, score.name), (target, score.name, score.value)


def datadog(method, path, body):
    from ddtrace.llmobs import _eval_metric as client

    assert (method, path) == ("POST", "/api/intake/llm-obs/v2/eval-metric")
    assert set(body) == {"data"}
    assert body["data"]["type"] == "evaluation_metric"
    for one in body["data"]["attributes"]["metrics"]:
        span, value = one["join_on"]["span"], one[f"{one['metric_type']}_value"]
        assert all(id_.isdecimal() for id_ in span.values())
        # The client refuses what Datadog would not take, and writes the same.
        built = client._build_evaluation_metric_event(
            **{key: one.get(key) for key in ("label", "metric_type", "ml_app", "timestamp_ms", "eval_scope")},
            **{key: one.get(key) for key in ("metadata", "assessment", "reasoning")},
            value=value,
            span=span,
            span_with_tag_value=None,
            tags=dict(tag.split(":", 1) for tag in one["tags"]),
            agent_service=None,
            otel_trace_enabled=True,
            resolve_agent_service=lambda _service, app: app,
            submission_error_cls=ValueError,
            telemetry_context=client._SubmissionTelemetryContext(metric_type=one["metric_type"]),
        )
        tags = set(built["tags"]) - set(one["tags"])
        assert {tag.split(":")[0] for tag in tags} == {"ddtrace.version", "ml_app"}
        assert {**built, "tags": one["tags"]} == {"event_kind": "evaluation", **one}
        yield json.dumps(span, sort_keys=True) + one["label"], (f"{int(span['span_id']):016x}", one["label"], value)


def found(path):
    """Answer what is looked up: the project of a name in LangSmith, the trace with the end of an id in Opik."""
    query = parse_qs(urlsplit(path).query)
    if path.startswith("/sessions"):
        return [{"id": "00000000-0000-4000-8000-000000000001", "name": query["name"][0]}]
    assert path.startswith("/v1/private/traces?")
    assert query["project_name"]
    (filter_,) = json.loads(query["filters"][0])
    assert (filter_["field"], filter_["operator"]) == ("id", "ends_with")
    return {"page": 1, "size": 1, "total": 1, "content": [{"id": "01900000-0000-" + filter_["value"]}]}


VENDORS = {"langfuse": (langfuse, 202), "langsmith": (langsmith, 200), "opik": (opik, 204), "datadog": (datadog, 202)}


class Vendor(BaseHTTPRequestHandler):
    read, taken_status = VENDORS[sys.argv[1]] if len(sys.argv) > 1 else (None, 200)
    # Scores by what the vendor overwrites.
    answers, refused, invalid, scores = [], [], [], {}

    def do_GET(self):
        if self.path == "/_seen":
            return self._answer(
                200, {"scores": [*self.scores.values()], "refused": self.refused, "invalid": self.invalid}
            )
        return self._answer(200, found(self.path))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/_answers":
            self.answers[:] = body
            for seen in (self.refused, self.invalid, self.scores):
                seen.clear()
            return self._answer(200, {})
        name = self.answers.pop(0) if self.answers else None
        if name is not None and name != "slow":
            self.refused.append(name)
            return self._answer(FAULTS[name], {"detail": "Run not found" if name == "404" else name})
        try:
            read = [*type(self).read(self.command, self.path.partition("?")[0], body)]
        except Exception as error:
            self.invalid.append(f"{self.command} {self.path}: {error!r}: {json.dumps(body)[:500]}")
            return self._answer(422, {"detail": str(error)})
        self.scores.update(read)
        if name == "slow":
            self.refused.append(name)
            time.sleep(SLOW_S)
        return self._answer(self.taken_status, {"message": "Accepted"})

    do_PUT = do_POST

    def _answer(self, status, body):
        self.send_response(status)
        if status == FAULTS["429"]:
            self.send_header("Retry-After", "1")
        content = b"" if status == 204 else json.dumps(body).encode()
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_words):
        pass


if __name__ == "__main__":
    # Its models take seconds to import: before the first request, not in it.
    with contextlib.suppress(AssertionError):
        [*Vendor.read("", "", {})]
    with ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Vendor) as server:
        print("ready", flush=True)
        server.serve_forever()

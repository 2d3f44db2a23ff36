"""`toolgauge.mark`: a person's verdict on a run, sent to the toolgauge that receives the spans of the run."""

import os
import re
import time
from typing import Literal

from opentelemetry.util.re import parse_env_headers

from toolgauge.model.errors import ConfigError, ToolgaugeError
from toolgauge.model.feedback import BY_MARK, MAX_REASON, VERDICT_NAME, Feedback
from toolgauge.net.admin_client import ask, check_url
from toolgauge.otlp.encode import fit_text, verdict_events

_TRACE = re.compile("[0-9a-f]{32}")
_DEFAULT, _PATH = "http://localhost:4318", "/v1/logs"
_MAX_ANSWER_BYTES = 64 * 1024
_HINT = (
    "`toolgauge serve` receives OTLP/HTTP on port 4318: `endpoint` or `OTEL_EXPORTER_OTLP_ENDPOINT` names another address, "
    "`OTEL_EXPORTER_OTLP_HEADERS` has its token"
)


def mark(trace_id: str, verdict: Literal["good", "bad"], why: str = "", *, endpoint: str | None = None) -> None:
    """Give a verdict on a run; `why` is cut to 200 characters.

    `endpoint` is a base URL of OTLP/HTTP; without it, the variables `OTEL_EXPORTER_OTLP_*` have it. Raises `ConfigError` for
    a wrong id, word or address, and `ToolgaugeError` when nobody takes the verdict.
    """
    asked = trace_id.strip().lower()
    if _TRACE.fullmatch(asked) is None or not int(asked, 16):
        raise ConfigError("a trace id has 32 hexadecimal digits", hint="the web view shows it on the page of the run")
    if verdict not in ("good", "bad"):
        raise ConfigError("a verdict is `good` or `bad`")

    def variable(name: str) -> str:
        return os.environ.get(f"OTEL_EXPORTER_OTLP_{name}", "").strip()

    base = endpoint or variable("ENDPOINT") or _DEFAULT
    url = (not endpoint and variable("LOGS_ENDPOINT")) or f"{base.rstrip('/')}{_PATH}"
    check_url(url, "endpoint")
    headers = {
        **parse_env_headers(variable("LOGS_HEADERS") or variable("HEADERS"), liberal=True),
        "Content-Type": "application/x-protobuf",
    }
    reason = fit_text(why.strip(), MAX_REASON)
    given = Feedback(name=VERDICT_NAME, label=verdict, trace_id=asked, source=BY_MARK, reason=reason)
    body = verdict_events([given], time.time_ns())
    try:
        ask(url, "", token=None, max_bytes=_MAX_ANSWER_BYTES, body=body, headers=headers)
    except ToolgaugeError as error:
        raise ToolgaugeError(f"nobody took the verdict: {error.message}", hint=_HINT) from error

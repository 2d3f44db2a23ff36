import pytest

from tests.config.files import loaded, refused
from tests.rows import each_row
from toolgauge.config.load import shown

GRPC = "receivers.otlp.protocols.grpc"
HTTP = "receivers.otlp.protocols.http"


@pytest.mark.parametrize("section", [GRPC, HTTP, "exporters.prometheus"])
@pytest.mark.parametrize("endpoint", ["0.0.0.0:7", ":7", '"[::]:7"', "10.0.0.1:7", "gateway:7"])
def test_what_strangers_can_reach_needs_a_guard_or_a_word(section: str, endpoint: str):
    error = refused(overrides=(f"{section}.endpoint={endpoint}",))
    assert f"`{section}` listens on" in error.message
    assert "anybody who reaches it gets in" in error.message
    assert error.hint == (
        "give it `auth`, or `tls` with `client_ca_file`; `insecure: true` says that the network is trusted"
    )


def test_a_certificate_alone_keeps_nobody_out():
    error = refused(overrides=(f"{GRPC}={{endpoint: 'gateway:7', tls: {{cert_file: a, key_file: b}}}}",))
    assert "anybody who reaches it gets in" in error.message


@each_row(
    ("value", "problem"),
    [
        (f"{GRPC}.auth={{}}", "needs a `token`, `tokens`, or a `filename` with one token a line"),
        (f"{GRPC}.tls={{cert_file: a}}", "key_file"),
        (f"{HTTP}.cors={{allowed_origins: []}}", "allowed_origins"),
        (f"{HTTP}.cors={{allowed_origins: ['a*b*c']}}", "allowed_origins"),
        (f"{HTTP}.traces_url_path=traces", "traces_url_path"),
        (f"{HTTP}.traces_url_path=/v1/logs", "has the same path for two signals"),
        (f"{GRPC}.keepalive={{server_parameters: {{time: 0s}}}}", "time"),
    ],
)
def test_what_cannot_work_is_named(value: str, problem: str):
    assert problem in refused(overrides=(value,)).message


def test_tokens_are_never_shown():
    config = loaded(overrides=(f"{GRPC}.auth={{token: t0p-secret, tokens: [s3cret-too]}}",))
    assert "t0p-secret" not in shown(config)
    assert "s3cret-too" not in shown(config)
    assert "t0p-secret" not in repr(config)
    assert "s3cret-too" not in repr(config)
    assert "<redacted>" in shown(config)


def test_tokens_may_come_from_the_environment():
    config = loaded(
        overrides=(f"{HTTP}.auth={{token: '${{env:TOKEN}}'}}",), environment={"TOKEN": "from-the-environment"}
    )
    auth = config.receivers.otlp.protocols.http.auth
    assert auth is not None
    assert auth.token == "from-the-environment"  # noqa: S105 - a value of the test

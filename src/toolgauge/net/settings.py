"""The settings of connections: listening addresses, TLS on either side, and the clients allowed to send."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from toolgauge import plugins
from toolgauge.model.errors import ConfigError
from toolgauge.settings import (
    SECOND,
    Address,
    FileName,
    PositiveDuration,
    Secret,
    Secrets,
    Section,
    file_path,
    split_address,
)

MinVersion: TypeAlias = Literal["1.2", "1.3"]
_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))


def read_token(file: Path) -> str:
    """Read the token on the first line of a file."""
    try:
        lines = file.read_text("utf-8-sig").split()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"cannot read the token file `{file}`: {reason}") from error
    if not lines or not (lines[0].isascii() and lines[0].isprintable()):
        raise ConfigError(f"the token file `{file}` does not begin with a token")
    return lines[0]


class ServerTls(Section):
    """A server's certificate and key; with `client_ca_file` clients need a certificate of that authority."""

    cert_file: FileName
    key_file: FileName
    client_ca_file: FileName | None = None
    min_version: MinVersion = "1.2"
    reload_interval: PositiveDuration = 10 * SECOND

    @property
    def files(self) -> tuple[Path, ...]:
        """All files it is made of."""
        return _paths(self.cert_file, self.key_file, self.client_ca_file)


class ClientTls(Section):
    """TLS to a destination, with the Collector's names. `insecure: true` is plain text."""

    insecure: bool = False
    insecure_skip_verify: bool = False
    ca_file: FileName | None = None
    cert_file: FileName | None = None
    key_file: FileName | None = None
    server_name_override: Annotated[str, Field(min_length=1)] | None = None
    min_version: MinVersion = "1.2"
    reload_interval: PositiveDuration = 10 * SECOND

    @model_validator(mode="after")
    def _key_belongs_to_certificate(self) -> "ClientTls":
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("needs `cert_file` and `key_file` together")
        return self

    @property
    def files(self) -> tuple[Path, ...]:
        """All files it is made of."""
        return _paths(self.ca_file, self.cert_file, self.key_file)


def _paths(*names: str | None) -> tuple[Path, ...]:
    return tuple(file_path(name) for name in names if name is not None)


class Auth(Section):
    """Who gets in: requests with `<header>: <scheme> <token>`."""

    token: Secret | None = Field(default=None, repr=False)
    tokens: Secrets = Field(default=(), repr=False)
    filename: FileName | None = None
    header: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$")] = "Authorization"
    scheme: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]*$")] = "Bearer"

    @model_validator(mode="after")
    def _has_a_token(self) -> "Auth":
        if self.token is None and not self.tokens and self.filename is None:
            raise ValueError("needs a `token`, `tokens`, or a `filename` with one token a line")
        return self


class ListenerSettings(Section):
    """Something that listens. Beyond loopback it needs `auth`, client certificates, or `insecure: true`."""

    endpoint: Address
    tls: ServerTls | None = None
    auth: Auth | None = None
    insecure: bool = False

    @property
    def is_open(self) -> bool:
        """Return whether any client on the network could use it although the configuration does not allow that."""
        host, _ = split_address(self.endpoint)
        guarded = self.auth is not None or (self.tls is not None and self.tls.client_ca_file is not None)
        return not (guarded or self.insecure or is_loopback(host))


def is_loopback(host: str) -> bool:
    """Return whether a listener at this host is reached from this machine alone."""
    return host.lower() in _LOOPBACK


# Kafka brokers, with the Collector's names. Nothing here loads the client.
CLIENT = "confluent_kafka"
Topic = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
Mechanism: TypeAlias = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


class Sasl(Section):
    """A user name and a password."""

    mechanism: Mechanism
    username: Annotated[str, Field(min_length=1)]
    password: Secret = Field(repr=False)


class KafkaAuth(Section):
    """How brokers know us; beside it, or in its place, a certificate in `tls`."""

    sasl: Sasl | None = None


class KafkaClientSettings(Section):
    """How to reach the brokers. Without `tls` it is plain text, as in the Collector."""

    brokers: Annotated[tuple[Address, ...], Field(min_length=1)] = ("localhost:9092",)
    client_id: Annotated[str, Field(min_length=1)] = "toolgauge"
    tls: ClientTls | None = None
    auth: KafkaAuth = KafkaAuth()

    @model_validator(mode="after")
    def _has_a_client_that_can_do_it(self) -> "KafkaClientSettings":
        if find_spec(CLIENT) is None:
            raise ValueError(
                f"needs the extra `toolgauge[kafka]`, which is not installed: {plugins.install_hint('kafka')}"
            )
        if self.tls is not None and self.tls.server_name_override is not None:
            raise ValueError("cannot check certificates against `tls.server_name_override`: brokers name their hosts")
        if self.tls is not None and self.tls.min_version != "1.2":
            raise ValueError("cannot refuse TLS 1.2: leave `min_version` out of its `tls`")
        return self

    @property
    def client_tls(self) -> ClientTls | None:
        """How TLS is spoken; `None` for plain text."""
        return None if self.tls is None or self.tls.insecure else self.tls


def client_properties(settings: KafkaClientSettings) -> dict[str, str | int | bool]:
    """Write the settings as librdkafka's properties."""
    tls, sasl = settings.client_tls, settings.auth.sasl
    protocol = ("SASL_" if sasl is not None else "") + ("SSL" if tls is not None else "PLAINTEXT")
    properties: dict[str, str | int | bool] = {
        "bootstrap.servers": ",".join(settings.brokers),
        "client.id": settings.client_id,
        "security.protocol": protocol,
        # A destination that is down is logged by what uses the client, once.
        "log_level": 0,
    }
    if tls is not None:
        for name, file in (("ca", tls.ca_file), ("certificate", tls.cert_file), ("key", tls.key_file)):
            if file is not None:
                properties[f"ssl.{name}.location"] = str(file_path(file))
        if tls.insecure_skip_verify:
            properties["enable.ssl.certificate.verification"] = False
    if sasl is not None:
        properties["sasl.mechanisms"] = sasl.mechanism
        properties["sasl.username"] = sasl.username
        properties["sasl.password"] = sasl.password
    return properties

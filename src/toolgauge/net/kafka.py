"""Settings of Kafka brokers, with the Collector's names, and the same as properties of librdkafka. Loads no client."""

from importlib.util import find_spec
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from toolgauge.net.settings import ClientTls
from toolgauge.settings import Address, Secret, Section, file_path

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
    def _has_its_client(self) -> "KafkaClientSettings":
        if find_spec(CLIENT) is None:
            raise ValueError(
                "needs the extra `toolgauge[kafka]`, which is not installed: `pip install 'toolgauge[kafka]'`"
            )
        return self

    @model_validator(mode="after")
    def _client_can_do_it(self) -> "KafkaClientSettings":
        if self.tls is not None and self.tls.server_name_override is not None:
            raise ValueError("cannot check certificates against `tls.server_name_override`: brokers name their hosts")
        if self.tls is not None and self.tls.min_version != "1.2":
            raise ValueError("cannot be kept from TLS 1.2: leave `min_version` out of its `tls`")
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

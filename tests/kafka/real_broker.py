"""A real Apache Kafka broker in KRaft mode: fetched once with Maven, kept in a cache, run as a process of its own.

It forms and ends consumer groups without delay, and takes one more listener with TLS and a password when it gets certificates.
"""

import contextlib
import functools
import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from tests.certificates import Certificates
from tests.deploy.fetched import alone, cache
from tests.wire.support import Process, environment, free_port, until

USER, PASSWORD = "agents", "agents-password"
_POM = Path(__file__).parent / "pom.xml"
_FETCH_TIMEOUT_S = 900
# A small heap and no second compiler: it starts in seconds, beside everything else that tests run.
_JAVA = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)


# -- Kafka itself -------------------------------------------------------------------------------------------------------


def cached() -> Path:
    """Name the directory of the jars of these versions."""
    return cache() / f"kafka-{hashlib.sha256(_POM.read_bytes()).hexdigest()[:16]}"


def installed() -> Path:
    """Find the jars, or fetch them; skip the test with the reason where that cannot be done."""
    found = _attempt()
    if isinstance(found, str):
        pytest.skip(f"no real Kafka broker: {found}")
    return found


@functools.cache
def _attempt() -> Path | str:
    if shutil.which("java") is None:
        return "there is no `java` to run it with"
    jars = cached()
    with alone(jars):
        return jars if jars.exists() else _fetch(jars)


def _fetch(jars: Path) -> Path | str:
    maven = shutil.which("mvn")
    if maven is None:
        return "there is no `mvn` to fetch it with"
    unfinished = jars.with_suffix(f".{os.getpid()}")
    done = subprocess.run(
        [maven, "-q", "-B", "-f", str(_POM), "dependency:copy-dependencies", f"-DoutputDirectory={unfinished}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=_FETCH_TIMEOUT_S,
    )
    if done.returncode:
        return f"its jars cannot be fetched: {done.stdout.strip()[-300:]}"
    unfinished.rename(jars)
    return jars


# -- one broker ---------------------------------------------------------------------------------------------------------


class Broker:
    """A broker that can be stopped, killed and started again with the same data at the same addresses."""

    def __init__(
        self, folder: Path, *, certificates: Certificates | None = None, more: Mapping[str, str] | None = None
    ):
        self._jars = installed()
        self._folder = folder
        self._port, self._controller = free_port(), free_port()
        self._tls_port = None if certificates is None else free_port()
        self._certificates = certificates
        self._process: Process | None = None
        self._starts = 0
        settings = {**self._settings(), **self._with_password(), **(more or {})}
        self._configuration = folder / "server.properties"
        self._configuration.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self._format()

    @property
    def address(self) -> str:
        """The listener without TLS and password."""
        return f"127.0.0.1:{self._port}"

    @property
    def tls_address(self) -> str:
        """The listener with TLS for `localhost`, where `USER` has a `PASSWORD` for PLAIN and SCRAM-SHA-512."""
        assert self._tls_port is not None, "the broker was given no certificates"
        return f"localhost:{self._tls_port}"

    def start(self) -> None:
        """Start it, and wait until it serves its topics."""
        self._starts += 1
        process = self._process = Process(
            self._java("kafka.Kafka", str(self._configuration)),
            self._folder / f"broker-{self._starts}.log",
            environment(),
        )
        admin = self.admin()

        def serves() -> bool:
            assert process.is_running(), process.said()
            with contextlib.suppress(KafkaException):
                return bool(admin.list_topics(timeout=1).brokers)
            return False

        until(serves, "the broker to serve")

    def stop(self) -> None:
        """Let it end in order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self._end(signal.SIGKILL)

    def forget(self) -> None:
        """End it at once, and remove all that it has stored: the next start is that of a new cluster."""
        self.kill()
        shutil.rmtree(self._folder / "data")
        self._format()

    def pause(self) -> None:
        """Freeze it: connections stay open, and nothing is answered."""
        assert self._process
        self._process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Go on after `pause`."""
        assert self._process
        self._process.signal(signal.SIGCONT)

    def create_topic(self, name: str, partitions: int = 4, **settings: str) -> str:
        """Create a topic, and wait until each partition has its leader; return its name."""
        admin = self.admin()
        admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(60)  # pyright: ignore[reportUnknownMemberType]  # its futures hold `None`

        def is_led() -> bool:
            topic = admin.list_topics(name, timeout=10).topics[name]
            return topic.error is None and [part.leader for part in topic.partitions.values()] == [1] * partitions

        until(is_led, f"the topic {name} to have its leaders")
        return name

    def written(self, topic: str) -> int:
        """Count the messages that were written to a topic."""
        with self._reader("counter") as reader:
            return sum(reader.get_watermark_offsets(one, timeout=60)[1] for one in self._partitions(topic))

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Read the committed offset of each partition of which a group has one."""
        with self._reader(group) as reader:
            found = reader.committed(self._partitions(topic), timeout=60)
        return {one.partition: one.offset for one in found if one.offset >= 0}

    def admin(self) -> AdminClient:
        """Make a client that manages topics and groups."""
        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})

    def close(self) -> None:
        """End it, in whatever state it is."""
        if self._process is not None:
            self._process.close()

    def _partitions(self, topic: str) -> list[TopicPartition]:
        return [
            TopicPartition(topic, number)
            for number in self.admin().list_topics(topic, timeout=60).topics[topic].partitions
        ]

    @contextlib.contextmanager
    def _reader(self, group: str) -> Generator[Consumer]:
        """Make a client that knows the offsets of a group and does not join it."""
        reader = Consumer({"bootstrap.servers": self.address, "group.id": group, "log_level": 0})
        try:
            yield reader
        finally:
            reader.close()

    def _end(self, number: int) -> None:
        assert self._process
        self._process.signal(number)
        self._process.ended()
        self._process.close()

    def _java(self, *words: str) -> list[str]:
        return ["java", *_JAVA, "-cp", f"{self._jars}/*", *words]

    def _format(self) -> None:
        # Any 16 bytes in URL-safe base64 name a cluster.
        words = ["format", "--cluster-id", "dG9vbGdhdWdlLXRlc3RzIQ", "--config", str(self._configuration)]
        if self._certificates is not None:
            words += ["--add-scram", f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]"]
        done = subprocess.run(
            self._java("kafka.tools.StorageTool", *words), capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _settings(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{self._controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL",
            "log.dirs": str(self._folder / "data"),
            # One broker has one copy of everything, and fewer partitions of its own topics start sooner.
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            "num.partitions": "4",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "500",
            "group.consumer.min.session.timeout.ms": "500",
            "group.consumer.min.heartbeat.interval.ms": "100",
            # A compacted topic is compacted while a test looks on.
            "log.cleaner.backoff.ms": "500",
            "log.cleaner.dedupe.buffer.size": "2097152",
            "controlled.shutdown.enable": "false",
            # A broker that was killed may come back when its session has ended.
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
        }

    def _with_password(self) -> dict[str, str]:
        if self._certificates is None:
            return {}
        keys = self._folder / "broker.pem"
        keys.write_bytes(_in_pkcs8(self._certificates.server_key) + self._certificates.server_cert.read_bytes())
        modules = "org.apache.kafka.common.security"
        listener = "listener.name.sasl_ssl"
        return {
            "listeners": f"{self._settings()['listeners']},SASL_SSL://{self.tls_address}",
            f"{listener}.ssl.keystore.type": "PEM",
            f"{listener}.ssl.keystore.location": str(keys),
            f"{listener}.ssl.truststore.type": "PEM",
            f"{listener}.ssl.truststore.location": str(self._certificates.ca_file),
            f"{listener}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            f"{listener}.plain.sasl.jaas.config": f'{modules}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
            f"{listener}.scram-sha-512.sasl.jaas.config": f"{modules}.scram.ScramLoginModule required;",
        }


@contextlib.contextmanager
def running_broker(
    folder: Path, *, certificates: Certificates | None = None, more: Mapping[str, str] | None = None
) -> Generator[Broker]:
    """Run a broker with its data in a folder; `more` are further settings of it."""
    with contextlib.closing(Broker(folder, certificates=certificates, more=more)) as broker:
        broker.start()
        yield broker


def _in_pkcs8(key: Path) -> bytes:
    """Read a private key, and write it in the one form that Java reads."""
    loaded = load_pem_private_key(key.read_bytes(), None)
    return loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


# -- fixtures -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def kafka_jars(pytestconfig: pytest.Config) -> None:
    """Skip the test where a real broker is not asked for, or cannot be had."""
    if not pytestconfig.getoption("--long"):
        pytest.skip(
            "a real Kafka broker takes long: `python3 tests --with kafka --long tests/kafka` fetches it (54 MiB) and runs it"
        )
    installed()


@pytest.fixture(scope="session")
def shared_broker(
    kafka_jars: None, forks_commands: None, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Broker]:
    """One broker for all tests that leave it running; each has topics and groups of its own."""
    del kafka_jars, forks_commands
    with running_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker

"""Topics that are deleted or made again are noticed by their ids."""

from concurrent.futures import Future
from typing import ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException, Uuid
from confluent_kafka.admin import TopicDescription  # pyright: ignore[reportPrivateImportUsage]  # public by its documentation

from toolgauge.receive import kafka_client
from toolgauge.receive.kafka_client import TopicIds
from toolgauge.receive.settings import KafkaReceiverSettings


class Admin:
    """Answers at once, with these ids of topics; others are missing."""

    ids: ClassVar[dict[str, int]] = {}

    def __init__(self, _properties: object) -> None:
        pass

    def describe_topics(self, names: object, **_more: object) -> dict[str, Future[TopicDescription]]:
        del names
        answers: dict[str, Future[TopicDescription]] = {"spans": Future(), "logs": Future()}
        for name, answer in answers.items():
            if name in self.ids:
                answer.set_result(TopicDescription(name, Uuid(0, self.ids[name]), is_internal=False, partitions=[]))
            else:
                answer.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        return answers


def test_a_topic_that_is_made_again_has_another_id(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kafka_client, "AdminClient", Admin)
    monkeypatch.setattr(kafka_client, "_LOOK_EVERY_S", 0.0)
    topics = TopicIds(KafkaReceiverSettings(brokers=("broker:9092",)), ("spans", "logs"))

    def look(**ids: int) -> tuple[set[str], set[str]]:
        monkeypatch.setattr(Admin, "ids", ids)
        topics.remade()
        return topics.remade(), topics.missing

    assert look(spans=1) == (set(), {"logs"})
    assert look(spans=1, logs=2) == (set(), set())
    assert look(spans=3, logs=2) == ({"spans"}, set())
    assert look(logs=2) == (set(), {"spans"})
    assert look(spans=4, logs=2) == ({"spans"}, set())

"""One conversation is one observation; what is no score is counted and is none."""

from msgspec.structs import replace

from tests.recordings.support import BROKEN, NO_CONTENT, score, scorecard, stream
from toolgauge.model.records import ENVIRONMENT
from toolgauge.model.regressions import Arm
from toolgauge.recordings.conversation_means import SERVICE, Observations, Sample, StreamCounts, observed_live


def test_the_calls_of_a_conversation_are_one_observation_for_each_tool_and_one_for_all():
    observations = Observations()
    observations.add(scorecard([("find", score(1)), ("find", score(0)), ("pay", score(1)), ("pay", score(1))]), "1.0")
    streams = observations.observed().streams["1.0"]
    assert streams == {
        stream(): StreamCounts(Sample(1, 0.75, 0.5625)),
        stream("find"): StreamCounts(Sample(1, 0.5, 0.25)),
        stream("pay"): StreamCounts(Sample(1, 1.0, 1.0)),
    }


def test_the_traces_of_a_conversation_are_one_observation():
    observations = Observations()
    for number, value in enumerate((1, 0, 0, 0)):
        card = scorecard([("find", score(value))], trace_id=f"{number:032x}", conversation_id="c")
        observations.add(card, "1.0")
    assert observations.observed().streams["1.0"][stream("find")].sample == Sample(1, 0.25, 0.0625)


def test_what_is_no_score_is_counted_beside_the_scores():
    observations = Observations()
    observations.add(scorecard([("find", score(0.5)), ("find", NO_CONTENT), ("find", BROKEN)]), "1.0")
    assert observations.observed().streams["1.0"][stream("find")] == StreamCounts(Sample(1, 0.5, 0.25), 1, 1)


def test_streams_of_two_environments_stay_apart_unless_left_out():
    observations = Observations()
    for number, environment in enumerate(("test", "live")):
        card = scorecard([(None, score(1))], trace_id=f"{number:032x}", environment=environment)
        observations.add(card, "1.0")
    apart = observations.observed().streams["1.0"]
    assert {one.environment: counts.sample.count for one, counts in apart.items()} == {"test": 1, "live": 1}
    together = observations.observed(without=(ENVIRONMENT,)).streams["1.0"]
    assert {one.environment: counts.sample.count for one, counts in together.items()} == {None: 2}


def test_without_services_versions_are_seen_first_where_any_service_showed_them():
    observations = Observations()
    observations.add(scorecard([("find", score(1))], service="a", start_ns=5), "1.0")
    observations.add(scorecard([("find", score(1))], service="b", start_ns=3), "1.0")
    observed = observations.observed(without=(SERVICE,))
    assert observed.first_seen_ns == {None: {"1.0": 3}}
    assert observed.streams["1.0"][replace(stream("find"), service=None)].sample.count == 1


def arm(version: str | None, first_seen_ns: int) -> Arm:
    return Arm(
        stream=stream(),
        version=version,
        observations=10,
        sum=9.5,
        sum_of_squares=9.25,
        first_seen_ns=first_seen_ns,
        last_seen_ns=first_seen_ns,
    )


def test_arms_without_a_version_cannot_be_told_apart():
    observed = observed_live([arm("1.0", 2), arm(None, 1)])
    assert observed.streams == {"1.0": {stream(): StreamCounts(Sample(10, 9.5, 9.25), None, None)}}
    assert observed.first_seen_ns == {"shop": {"1.0": 2}}

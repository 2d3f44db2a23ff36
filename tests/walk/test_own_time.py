"""An evaluator that never ends has its seconds, of the time that it takes itself."""

from collections.abc import Iterator
from typing import ClassVar

from tests.walk.support import Walk
from tests.walk.test_large_traces import request
from toolgauge.model.expected import Expected
from toolgauge.model.outcomes import Level
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.criterion import Criterion, NoReference, When
from toolgauge.service.criteria import default_criteria


class NeverEnds:
    """Takes 20 ms between two pauses, and 20 ms more pass until it is asked again."""

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"

    def __init__(self) -> None:
        self.now_ns = 0
        self.pauses = 0

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        del trajectory, expected
        while True:
            self.now_ns += 20_000_000
            self.pauses += 1
            yield None


def test_an_evaluator_that_never_ends_is_cut_off_after_ten_seconds_of_its_own_time():
    endless = NeverEnds()
    rule = Criterion(
        name="endless",
        evaluator_name="endless",
        evaluator=endless,
        revision="0123456789ab",
        when=When(),
        reference=NoReference(),
    )
    walk = Walk(criteria=(rule, *default_criteria()), clock=lambda: endless.now_ns)
    walk.send(request(b"a", 3))
    walk.pipeline.tick(walk.now_ns + 100_000_000_000)
    while walk.pipeline.score(5_000_000):
        endless.now_ns += 20_000_000
    walk.pipeline.flush()
    assert 490 <= endless.pauses <= 510
    (scorecard,) = walk.scorecards()
    said = {attribute.key: attribute.value.string_value for attribute in scorecard.attributes}
    assert said["toolgauge.eval.endless.outcome"] == "error"
    # The others have been heard.
    assert len(scorecard.events) >= 3
    assert walk.books()["balance"] == 0

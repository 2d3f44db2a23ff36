from toolgauge.export.destination import Undelivered
from toolgauge.service.runtime import Losses


def test_spans_and_trajectories_that_were_lost_are_named_apart():
    losses = Losses(
        undelivered=(("tempo", Undelivered(spans=3596, own=12)), ("archive", Undelivered(requests=2))),
        held=Undelivered(spans=4),
        dropped=3,
        incomplete=5,
    )
    assert str(losses) == (
        "3596 spans and 12 requests of our own could not be delivered to tempo; "
        "2 log or metric requests could not be delivered to archive; 4 spans found no room in a queue; "
        "3 trajectories were dropped unscored; 5 trajectories are `not_evaluated` (`incomplete`)"
    )
    assert losses
    assert losses.spans == 3600


def test_a_trajectory_that_is_incomplete_is_no_loss():
    assert not Losses(incomplete=5)
    assert not Losses()

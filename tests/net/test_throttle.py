"""What repeats is said at once, then once in a while with how often it came."""

from toolgauge.net.throttle import Throttle


def test_the_first_is_said_and_those_that_follow_soon_are_counted():
    now_s = [0.0]
    throttle = Throttle(60, lambda: now_s[0])
    assert throttle.suppressed("ValueError") == throttle.suppressed("KeyError") == 0
    for second in range(1, 60):
        now_s[0] = second
        assert throttle.suppressed("ValueError") is None
    now_s[0] = 60
    assert throttle.suppressed("ValueError") == 59
    now_s[0] = 120
    assert throttle.suppressed("ValueError") == 0

"""Calls a minute and money an hour."""

import pytest

from toolgauge.judge.settings import Budget, JudgeSettings, RateLimit
from toolgauge.settings import Prices


def test_the_call_after_the_last_of_a_minute_waits_until_the_first_is_a_minute_old():
    pace = RateLimit(2)
    assert [pace.wait_s(0.0), pace.wait_s(10.0), pace.wait_s(15.0)] == [0.0, 0.0, 45.0]
    assert [pace.wait_s(60.0), pace.wait_s(60.0), pace.wait_s(70.0)] == [0.0, 10.0, 0.0]


def test_a_call_is_charged_what_it_cost_and_not_what_it_might_have_cost():
    budget = Budget(1.0)
    assert budget.reserve(0.6, 0.0)
    assert not budget.reserve(0.6, 0.0)
    budget.charge(0.6, 0.1, 1.0)
    assert budget.reserve(0.6, 1.0)


def test_money_comes_back_after_an_hour():
    budget = Budget(1.0)
    assert budget.reserve(0.9, 0.0)
    budget.charge(0.9, 0.9, 0.0)
    assert not budget.reserve(0.2, 3599.0)
    assert budget.reserve(0.2, 3606.0)


def test_prices_are_for_a_million_tokens():
    prices = Prices(input_per_million=2.0, output_per_million=8.0)
    assert JudgeSettings(model="openai:any", prices=prices).cost(1_000_000, 500_000) == pytest.approx(6.0)

"""However often a sensitive value is seen, and among whatever else, nothing of it is in what may be written down."""

import string

from hypothesis import given
from hypothesis import strategies as st

from toolgauge.authoring.value_profiles import Profile, Summary
from toolgauge.model.json import Json

_GIVEN = ("Mei", "Olivia", "José", "Björn", "Nguyễn", "O'Brien", "Anne-Marie", "Zoë", "Иван", "Fatima")
_FAMILY = ("Kovacs", "Smith", "van der Berg", "Müller", "Łukasz", "de la Cruz", "Al-Farsi", "Петров")
_STREETS = ("Evergreen Terrace", "Main St", "Hauptstraße", "Rue de la Paix", "Via Roma")


def _with_luhn(digits: str) -> str:
    total = 0
    for place, digit in enumerate(reversed(digits)):
        doubled = int(digit) * (2 if place % 2 == 0 else 1)
        total += doubled - 9 if doubled > 9 else doubled
    return digits + str(-total % 10)


def _full_name(given_name: str, family_name: str) -> str:
    return f"{given_name} {family_name}"


def _card(digits: str, joint: str) -> str:
    return joint.join(digits[place : place + 4] for place in range(0, 16, 4))


def _address(number: int, street: str, form: str) -> str:
    return form.format(number=number, street=street)


def _email(one: str, host: str) -> str:
    return f"{one}@{host}.com"


_names = st.builds(_full_name, st.sampled_from(_GIVEN), st.sampled_from(_FAMILY)) | st.sampled_from(_GIVEN)
_digits = st.text(string.digits, min_size=15, max_size=15).filter(lambda digits: digits[0] in "3456")
_cards = st.builds(_card, _digits.map(_with_luhn), st.sampled_from(("", " ", "-")))
_addresses = st.builds(
    _address,
    st.integers(1, 99999),
    st.sampled_from(_STREETS),
    st.sampled_from(("{number} {street}", "{street} {number}", "{number} {street}, Apt 4, Springfield")),
)
_emails = st.builds(
    _email,
    st.text(string.ascii_lowercase + ".", min_size=3, max_size=10).filter(lambda text: text.strip(".") == text),
    st.sampled_from(("example", "mail.example")),
)
_ids = st.from_regex(
    r"\A(?:#?[A-Z]{1,3}-?[0-9]{3,8}|[a-z]{3,8}_[a-z]{3,8}_[0-9]{3,4}|[0-9]{5,12}|[0-9a-f]{8}-[0-9a-f]{12})\Z"
)
_sensitive = (
    _names | _cards | _addresses | _emails | _ids | st.text(string.ascii_letters + " ", min_size=60, max_size=90)
)
_HARMLESS: list[Json] = ["economy", "USD", "in_progress", "2024-05-16", True, None, 3, 17.5, [], {}]
_harmless = st.sampled_from(_HARMLESS)
_argument_names = st.sampled_from(["kind", "class", "value", "order_id", "target", "payload", "amount"])


def _shown(summary: Summary) -> str:
    return repr((summary.labels, summary.pattern, summary.low, summary.high, dict(summary.forms)))


@given(_sensitive, st.lists(_harmless, max_size=5), _argument_names, st.integers(1, 30))
def test_a_sensitive_value_is_never_written_down(secret: str, others: list[Json], name: str, times: int):
    profile = Profile(name)
    for place in range(times):
        for value in (secret, *others):
            profile.add(value, str(place))
    shown = _shown(profile.summary(f"Takes {secret}, for example '{secret.lower()}' or 3."))
    assert secret not in shown
    assert not any(part in shown for part in secret.replace("-", " ").replace("_", " ").split() if len(part) > 3)


@given(_digits.map(_with_luhn), st.integers(1, 20))
def test_a_card_written_as_a_number_is_never_written_down(digits: str, times: int):
    profile = Profile("amount")
    for place in range(times):
        profile.add(int(digits), str(place))
    summary = profile.summary()
    assert (summary.low, summary.high, summary.labels, summary.pattern) == (None, None, None, None)

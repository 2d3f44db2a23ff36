"""What form values have, and what of them may be written down."""

from tests.rows import each_row
from toolgauge.authoring.value_profiles import Profile, Summary, form_of, is_personal
from toolgauge.model.json import Json


def profiled(values: list[Json], *, name: str = "kind", definition: str = "", sources: int = 1000) -> Summary:
    profile = Profile(name)
    for place, value in enumerate(values):
        profile.add(value, str(place % sources))
    return profile.summary(definition)


@each_row(
    ("value", "form"),
    [
        (None, "null"),
        (True, "boolean"),
        (3, "integer"),
        (3.0, "number"),
        (3.5, "number"),
        ({}, "object"),
        ("", "empty"),
        ("economy", "label"),
        ("round_trip", "label"),
        ("2024-05-16", "date"),
        ("2024-05-16T10:00:00Z", "datetime"),
        ("10:30", "time"),
        ("6f9619ff-8b86-d011-b42d-00cf4fc964ff", "uuid"),
        ("mei.kovacs@example.com", "email"),
        ("https://example.com/u/17", "url"),
        ("+1 (555) 012-3456", "phone"),
        ("4111 1111 1111 1111", "card"),
        ("sk-abcdefghijklmnop1234", "secret"),
        ("#W1234567", "identifier"),
        ("mei_kovacs_8020", "identifier"),
        ("1096508426", "identifier"),
        ("94105", "identifier"),
        ("19.99", "decimal"),
        ("Mei Kovacs", "name"),
        ("Kovacs", "name"),
        ("742 Evergreen Terrace", "address"),
        ("10115 Berlin", "address"),
        ("The parcel never arrived and I am cross.", "text"),
    ],
)
def test_a_value_has_a_form(value: Json, form: str):
    assert form_of(value) == form


def test_labels_that_many_sources_share_may_be_written_down():
    summary = profiled(["economy", "business"] * 5)
    assert (summary.form, summary.labels) == ("label", ("business", "economy"))


def test_a_label_of_few_sources_hides_all_labels():
    assert profiled([*["economy"] * 50, *["business"] * 4]).labels is None
    assert profiled(["economy"] * 50, sources=4).labels is None


def test_a_label_that_the_tools_definition_spells_needs_no_more_evidence():
    definition = "The reason, one of 'no longer needed' and 'ordered by mistake'."
    summary = profiled(["no longer needed", "ordered by mistake"], definition=definition)
    assert summary.labels == ("no longer needed", "ordered by mistake")


def test_an_example_of_an_id_in_a_definition_stays_out():
    assert profiled(["mei_kovacs_8020"] * 9, definition="such as mei_kovacs_8020").labels is None


def test_a_label_under_a_personal_name_stays_out():
    assert profiled(["kovacs"] * 50, name="last_name").labels is None
    assert profiled(["kovacs"] * 50, name="assignee").labels is None


def test_a_word_under_the_name_of_an_id_is_an_id():
    values: list[Json] = [*(f"A{place}BCDE" for place in range(10)), "QQQQQQ", "12"]
    assert profiled(values, name="reservation_id").forms == {"identifier": 12}


def test_numbers_have_a_range_rounded_outwards():
    summary = profiled([101, 20, 1234.5])
    assert (summary.form, summary.low, summary.high) == ("number", 20, 1300)


def test_numbers_that_are_ids_or_long_have_no_range():
    assert profiled([123456, 123457], name="order_id").low is None
    assert profiled([4111111111111111, 3]).high is None


@each_row(
    ("name", "expected"),
    [("customerName", True), ("email2", True), ("api_token", True), ("customer_tier", False), ("cabin", False)],
)
def test_the_last_word_of_a_name_decides_what_is_personal(name: str, expected: bool):  # noqa: FBT001 (a parameter of the test)
    assert is_personal(name) == expected

"""Answers of many domains and languages: claims are caught, and no admission is ever taken for a claim."""

from pathlib import Path

from tests.rows import each_row
from toolgauge.score.answer_claims import read_answer

ANSWERS = Path(__file__).parent / "answers"
LANGUAGES = sorted(path.stem for path in ANSWERS.glob("*.txt"))


def answers(language: str, kind: str) -> list[str]:
    lines = (ANSWERS / f"{language}.txt").read_text().splitlines()
    return [text.replace("\\n", "\n") for line in lines for name, _, text in [line.partition(": ")] if name == kind]


@each_row("language", LANGUAGES)
def test_claims_of_success_are_recognized(language: str):
    read = [read_answer(text) for text in answers(language, "claim")]
    assert read.count("claims") >= 0.9 * len(read)
    assert "admits" not in read


@each_row("language", LANGUAGES)
def test_admissions_are_recognized(language: str):
    assert [text for text in answers(language, "admission") if read_answer(text) != "admits"] == []


@each_row("language", LANGUAGES)
def test_answers_that_admit_in_unusual_words_are_never_claims(language: str):
    assert [text for text in answers(language, "doubtful") if read_answer(text) == "claims"] == []


def test_answers_that_do_neither_are_silent():
    assert [text for text in answers("english", "open") if read_answer(text) != "silent"] == []


@each_row(
    "text",
    [
        "I can\u2019t confirm that your card was charged.",
        "Your card hasn't been charged.",
        "Thanks for waiting, unfortunately the transfer bounced.",
        "Your booking is confirmed. Leider ist die Zahlung fehlgeschlagen.",
        "Your order was placed.\n\n"
        + "Thank you for your patience.\n" * 50
        + "The card was declined.\n\nHave a nice day!",
    ],
)
def test_an_admission_anywhere_outweighs_a_claim(text: str):
    assert read_answer(text) == "admits"


@each_row(
    "text",
    [
        'The page says "Your booking is confirmed".',
        "If your card was charged, you get a receipt.",
        "Your booking is confirmed once you pay.",
        "Your order has already been cancelled.",
        "Your flight has been cancelled by the airline.",
        "The email that was sent to Ana is short.",
    ],
)
def test_conditions_quotations_and_reports_are_no_claims(text: str):
    assert read_answer(text) != "claims"


def test_what_lies_beyond_the_limit_may_be_an_admission():
    assert read_answer("All done. " + "Thank you. " * 2_000) == "unclear"
    # One character of 18 in its compatibility form.
    assert read_answer("All done. " + "\ufdfa" * 2_000) == "unclear"

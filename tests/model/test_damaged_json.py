"""JSON that a limit or a mask damaged is told from JSON that a model wrote wrongly."""

import json

from tests.rows import each_row
from toolgauge.model.damaged_json import extent, is_broken_by_mask, was_cut

WHOLE = json.dumps({"body": "x" * 150_000, "n": [1, 2]})


@each_row("size", [250, 1000, 1023, 2048, 4095, 8191, 12_288, 16_384, 32_766, 65_535, 131_072])
def test_json_that_ends_at_a_known_limit_was_cut(size: int):
    assert was_cut(WHOLE[:size])


def test_a_limit_counts_characters_bytes_or_utf_16_units():
    umlauts = '{"name": "' + "\u00fc" * 5_000
    emoji = '{"note": "' + "\U0001f389" * 3 + "z" * 5_000
    assert was_cut(umlauts[:4_096])
    assert was_cut(umlauts.encode()[:8_192].decode())
    assert was_cut(emoji[: 4_096 - 3])
    assert not was_cut(emoji[: 4_096 - 2])


def test_a_limit_in_utf_16_units_stops_before_an_emoji_that_does_not_fit():
    # 1027 and 1023 units.
    assert was_cut(('{"note": "x' + "\U0001f389" * 5_000)[: 11 + 508])
    assert was_cut(('{"note": "x' + "\U0001f389" * 5_000)[: 11 + 506])
    assert not was_cut(('{"note": "x' + "\U0001f389" * 5_000)[: 11 + 510])


@each_row(
    "text",
    [
        '{"a": "b...',
        '{"a": "b"\u2026',
        '{"a": "b...[truncated 1200 chars]',
        '{"a": [1, 2... (1200 more)',
        "{'a': 'b...",
        '"{\\"a\\": \\"b...',
    ],
)
def test_a_marker_shows_a_cut_at_any_length(text: str):
    assert was_cut(text)


@each_row("text", ["[see the notes for more...", '"Hello world...', "and so on...", '{a: "b...', ""])
def test_prose_was_not_cut(text: str):
    assert not was_cut(text)


@each_row(
    "text",
    [
        "{",
        '{"a"',
        '{"a": "b",',
        '{"a": "\\u00',
        '{"a": tr',
        '{"a": 1e',
        '{"a": [1, {"b": null}',
        "{'a': Tru",
        "{'a': (1, 'b",
        "{'a': b'x\\x0",
        "{2: 'a",
    ],
)
def test_json_and_literals_without_their_end_are_valid_up_to_it(text: str):
    assert extent(text) == "cut"


@each_row(
    "text",
    [
        '{"a" "b"',
        "{a: 1",
        '{"a": 1,, "b',
        '{"a": "\\d',
        '{"a": "line\nbreak',
        "{'a': 1 + 2",
        '{"a": 007',
        '{"a": [1}',
        "{1, 2",
    ],
)
def test_json_that_is_wrong_before_its_end_is_broken(text: str):
    assert extent(text) == "broken"


@each_row(
    "text",
    [
        # The Collector's redaction processor and the transform processor, over numbers.
        '{"to": ****, "n": 1}',
        '{"id": 5d41402abc4b2a76b9719d911017c592}',
        # Whole members, and the quote beside a value or the rest of the text taken along.
        '{"a": 1, ****, "b": 2}',
        "{****}",
        '{"token": "****, "n": 1}',
        '{"token": "****',
        '{"cmd": "KEY=***REDACTED***" run", "n": 1}',
        # Presidio, Bindplane, Sentry, OpenInference, Logfire, Langfuse, Datadog.
        '{"to": <EMAIL_ADDRESS>, "phone": [PHONE]}',
        '{"to": [masked_email]}',
        '{"to": __REDACTED__}',
        "{\"to\": [Scrubbed due to 'password']}",
        '{"to": [REDACTED EMAIL], "n": [REDACTED_SSN_1]}',
        "{'to': ****, 'dry': True}",
        '{"to": A1FCE4363854FF888CFF4B8E7875D600C2682390412A8CF79B37D0B11148B0FA}',
        '{"day": 20**-**-**, "card": \u2022\u2022\u2022\u20221234}',
        # Bedrock, LangSmith, Sentry Relay.
        '{"to": {EMAIL}, "n": 1}',
        '{"to": [email], "from": [ip]}',
        # One mask is intact, another took its quote along.
        '{"to": "****", "n": 1, "q": "a ****}',
        '{"to": "****, "n": 1, "q": "a **** b"}',
        '{"to": ****", "n": 1, "q": "****"}',
    ],
)
def test_json_that_is_valid_but_for_masks_is_broken_by_them(text: str):
    assert is_broken_by_mask(text)


@each_row(
    "part",
    ["x" * 50 + "a", "X-" * 50 + "!", "***a" * 50, "[redact" * 50, "__" * 50, "5d41" * 50, "1**-" * 50, "****x" * 50],
)
def test_text_that_begins_like_a_mask_is_walked_once(part: str):
    # With a rule that backtracks, this would not end.
    assert not is_broken_by_mask('{"a": ' + part * 50)

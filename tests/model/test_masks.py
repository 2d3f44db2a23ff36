"""Masks that redaction processors and SDKs write in place of a value."""

from tests.rows import each_row
from toolgauge.model.masks import is_digest, is_mask, is_redacted


@each_row(
    "text",
    [
        "****",
        "j***@x.com",
        "[REDACTED]",
        "[REDACTED EMAIL]",
        "[REDACTED_PERSON_1]",
        "__REDACTED__",
        "[Filtered]",
        "[censored]",
        "<EMAIL_ADDRESS>",
        "<US_SSN>",
        "{EMAIL}",
        "XXXX",
        "XXXX-XXXX-XXXX-1234",
        "\u2022\u2022\u2022\u2022",
        "\u2022\u2022\u2022\u20221234",
        "j\u2022\u2022\u2022\u2022@x.com",
        "####1234",
        # LangSmith's documentation and Sentry Relay.
        "<email-address>",
        "[email]",
        "[ip]",
        "20**-**-**",
        "192.168.**.**",
    ],
)
def test_a_value_that_was_masked_is_a_mask(text: str):
    assert is_mask(text)


@each_row(
    "text",
    [
        "",
        "A-17",
        "EMAIL",
        "filtered",
        "<UNKNOWN>",
        "[NAME]",
        "XXL",
        "XXX",
        "a**b",
        "10**-10",
        "2**10",
        "**/*.py",
        "**/**",
        "[name]",
        "<url>",
        "# title",
        "\u2022 item",
        "the *** thing",
        "5d41402abc4b2a76b9719d911017c592",
        "*" * 100,
    ],
)
def test_a_value_that_may_be_a_model_s_own_is_none(text: str):
    assert not is_mask(text)


def test_a_text_is_redacted_as_a_whole_only_where_nothing_else_can_be_meant():
    assert is_redacted("[Filtered]")
    assert not is_redacted("[5 items removed]")
    assert not is_redacted("(hidden files: none)")
    assert not is_redacted("j***@x.com")
    assert not is_redacted("<EMAIL_ADDRESS>")


@each_row("size", [32, 40, 56, 64, 96, 128])
def test_hex_of_the_length_of_a_hash_is_a_digest(size: int):
    assert is_digest(("5d4e" * 32)[:size])
    assert is_digest(("5D4E" * 32)[:size])
    assert not is_digest(("5D4e" * 32)[:size])
    assert not is_digest(("1234" * 32)[:size])
    assert not is_digest(("5d4e" * 32)[: size - 1])

import pytest
from msgspec.structs import replace

from tests.rows import each_row
from toolgauge.export.redact import Redactor
from toolgauge.model.errors import ConfigError
from toolgauge.model.json import Json
from toolgauge.model.outcomes import Difference, Errored, NotEvaluated, Scored, Side


def differing(expected: Json, actual: Json, where: str = "pay.amount") -> Scored:
    return Scored(
        value=0.0,
        explanation="1 of 1 arguments differs",
        differences=(Difference(where=where, rule="equal", expected=Side(value=expected), actual=Side(value=actual)),),
        passed=False,
    )


def shown(expected: Json, actual: Json, where: str = "pay.amount") -> str:
    return Redactor(show_values=True).explain(differing(expected, actual, where))


def test_values_are_hidden_unless_shown():
    assert Redactor(show_values=False).explain(differing(20, 99)) == "1 of 1 arguments differs"
    assert shown(20, 99) == "1 of 1 arguments differs (pay.amount (equal): expected 20, got 99)"


def test_null_differs_from_absent():
    outcome = Scored(
        value=0.0,
        explanation="differs",
        differences=(Difference(where="pay.note", rule="equal", expected=Side(value=None), actual=None),),
    )
    assert Redactor(show_values=True).explain(outcome) == ("differs (pay.note (equal): expected null, got nothing)")


@each_row(
    ("text", "masked"),
    [
        ("write to ann.lee+x@mail.example.org now", "write to [email] now"),
        ("card 4111 1111 1111 1111 declined", "card [card] declined"),
        ("card 4111111111111111", "card [card]"),
        ("at 1700000000000000003", "at 1700000000000000003"),
        ("key sk-proj-abcdefghijklmnop1234", "key [key]"),
        ("AKIAIOSFODNN7EXAMPLE", "[key]"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "[key]"),
        ("Authorization: Bearer abc.def-ghi_jkl", "Authorization: [masked] [token]"),
        ("sent bearer abcdefgh12345678", "sent bearer [token]"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "[key]"),
        ("postgres://ann:hunter2@db.internal/x", "postgres://[masked]@db.internal/x"),
        ('{"api_key": "abc def", "n": 1}', '{"api_key": [masked], "n": 1}'),
        ("password=hunter2&x=1", "password=[masked]"),
        ("MY_SECRET_TOKEN: xyz", "MY_SECRET_TOKEN: [masked]"),
        ("`amount` differs: 3 of 4 arguments agree", "`amount` differs: 3 of 4 arguments agree"),
        ("the token bucket is empty", "the token bucket is empty"),
    ],
)
def test_secrets_are_masked_always(text: str, masked: str):
    for redactor in (Redactor(show_values=False), Redactor(show_values=True, patterns=())):
        assert redactor.explain(Scored(value=1.0, explanation=text)) == masked
        assert redactor.explain(NotEvaluated(reason="no_content", explanation=text)) == masked


def test_secrets_are_masked_in_values():
    assert "expected [card], got " in shown(4111111111111111, 1).replace('"', "")
    assert 'got "[email]"' in shown("x", "ann@example.org")
    assert "hunter2" not in shown({"user": "ann", "password": "hunter2"}, "x")
    assert "expected [masked], got [masked]" in shown("hunter2", "hunter3", where="log_in.password")


def test_no_half_of_a_secret_is_left_at_a_cut():
    for length in range(150, 230, 3):
        assert "sk-" not in shown("x" * length + " sk-abcdefghijklmnopqrstuvwxyz", 1).replace("[key]", "")
    for length in range(980, 1060, 3):
        text = Redactor(show_values=False).explain(Scored(value=1.0, explanation="x" * length + " ann@example.org"))
        assert "ann" not in text


def test_no_half_of_a_secret_is_left_where_the_search_ends():
    for padding in range(0, 60, 7):
        emails = "x" * padding + " " + "a-quite-long-name-of-somebody@a-quite-long-host.example.org " * 200
        text = Redactor(show_values=False).explain(Scored(value=1.0, explanation=emails))
        assert all("[email]".startswith(word) for word in text.split()[1:])


def test_configured_patterns_are_masked_too():
    redactor = Redactor(show_values=False, patterns=["default", r"CUST-\d+"])
    outcome = NotEvaluated(reason="no_content", explanation="CUST-1234 wrote to a@example.org")
    assert redactor.explain(outcome) == "[masked] wrote to [email]"


@each_row("pattern", ["(", r"(?=x)", "a{100000}", "\ud800"])
def test_a_pattern_that_is_none_is_a_clear_error(pattern: str):
    with pytest.raises(ConfigError, match=r"`redact\.patterns\[1\]` is not a valid RE2 pattern"):
        Redactor(show_values=False, patterns=["default", pattern])


def test_a_pattern_that_matches_nothing_at_all_is_a_clear_error():
    with pytest.raises(ConfigError, match="matches the empty text"):
        Redactor(show_values=False, patterns=[r"\d*"])


def test_the_message_of_an_error_is_masked_too():
    outcome = Errored(error_type="timeout", message="no answer from ann@example.org")
    assert Redactor(show_values=False).explain(outcome) == "no answer from [email]"


def test_explanations_are_bounded():
    assert len(Redactor(show_values=False).explain(Scored(value=1.0, explanation="x" * 1_000_000))) == 1024
    many = Scored(
        value=0.0,
        explanation="differs",
        differences=tuple(
            Difference(where=f"a{number}", rule="equal", expected=None, actual=None) for number in range(1000)
        ),
    )
    assert Redactor(show_values=True).explain(many).endswith("; and 980 more)")
    long = differing("x" * 5000, "y" * 5000, where="z" * 5000)
    assert len(Redactor(show_values=True).explain(replace(long, differences=long.differences * 10))) == 1024


def test_huge_and_deep_values_are_cut():
    deep: Json = 1
    for _ in range(10_000):
        deep = [deep]
    assert "[[[[[…]]]]]" in shown(deep, 1)
    assert "a very large number" in shown(10**100_000, 1)
    wide: Json = {str(number): number for number in range(10_000)}
    assert len(shown(wide, 1)) < 1024


def test_private_members_of_indented_json_are_masked():
    text = Redactor(show_values=True).json({"user": {"password": {"old": "hunter2"}}}, 1000, is_indented=True)
    assert '"password": [masked]' in text
    assert "hunter2" not in text


def test_unicode_that_cannot_travel_is_replaced():
    text = Redactor(show_values=True).explain(
        Scored(
            value=0.0,
            explanation="a\ud800b\x00c\nd",
            differences=(Difference(where="w\udfff", rule="r\ud800", expected=Side(value={"k\ud800": "\ud800"})),),
        )
    )
    assert text.encode() == text.encode("utf-8", "strict")
    assert text.startswith("a\ufffdb\ufffdc\nd (w\ufffd (r\ufffd): expected ")


def test_a_judge_is_quoted_with_its_reason_and_never_with_half_of_its_json():
    said: Json = {"label": "No", "reasoning": "The order was paid twice. " * 40}
    judged = Scored(
        value=0.0,
        explanation="the judge says No",
        differences=(Difference(where="verdict", rule="judge", actual=Side(value=said)),),
    )
    text = Redactor(show_values=True).explain(judged)
    assert text.startswith("the judge says No (verdict (judge): got The order was paid twice. The")
    assert "{" not in text
    assert "twice" not in Redactor(show_values=False).explain(judged)

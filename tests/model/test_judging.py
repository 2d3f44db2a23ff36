"""What a judge said is opened before it is quoted: people read its reason, not its JSON."""

from tests.rows import each_row
from toolgauge.model.json import Json
from toolgauge.model.judging import reason_in


@each_row(
    ("verdict", "shown"),
    [
        ("It paid twice.", "It paid twice."),
        ('{"score": 0.2, "reason": "It paid twice."}', "It paid twice."),
        ('```json\n{"score": 0.2, "Explanation": "It paid twice."}\n```', "It paid twice."),
        ({"label": "No", "reasoning": '{"score": 0.2, "rationale": "It paid twice."}'}, "It paid twice."),
        ({"score": 0.2, "reason": ""}, "score: 0.2, reason: "),
        ([{"verdict": "no", "reason": "It paid twice."}, {"verdict": "idk"}], "It paid twice.; verdict: idk"),
        # Cut by a limit: within the reason, within an escape, and before any reason.
        ('{"score": 0.2, "reason": "It paid \\"twice\\", the', 'It paid "twice", the'),
        ('{"score": 0.2, "reason": "It paid\\u00', "It paid"),
        ('{"score": 0.2, "rea', "score: 0.2, rea"),
        ("{the order} was paid", "{the order} was paid"),
    ],
)
def test_a_judge_is_quoted_with_its_reason(verdict: Json, shown: str):
    assert reason_in(verdict) == shown


def test_verdicts_within_verdicts_end():
    verdict: Json = "why"
    for _ in range(500):
        verdict = {"verdict": [verdict]}
    assert reason_in(verdict).endswith("...")

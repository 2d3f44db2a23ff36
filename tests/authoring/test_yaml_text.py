"""YAML with comments reads back as what was written, whatever the texts are."""

from hypothesis import given, settings
from hypothesis import strategies as st

from toolgauge.authoring.criteria_yaml import Commented, Written, yaml_text
from toolgauge.config.parse import parse_yaml
from toolgauge.config.problems import plain

_texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=30) | st.sampled_from(
    [
        "${env:HOME}",
        "$${",
        "$",
        "a: b",
        "- x",
        "# no",
        "*",
        "!!python/object",
        "yes",
        "1e3",
        "0x1F",
        "~",
        "\n- name: evil",
        "'",
        '"',
    ]
)
_values = st.recursive(
    _texts | st.integers(-(10**9), 10**9) | st.booleans() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b c", "${env:HOME}"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=40)
@given(_values, _texts)
def test_what_is_written_reads_back(value: Written, comment: str):
    written = yaml_text(
        {"first": Commented(value, comment, (comment,)), "second": [Commented({"x": value}, comment)]}, (comment,)
    )
    read = plain(parse_yaml(written, "learned", {"HOME": "secret"}))
    assert read == {"first": value, "second": [{"x": value}]}


def test_lines_have_their_comments():
    document: dict[str, Written] = {
        "rules": [
            Commented({"before": "refund", "call": ["find", "look up"]}, "3 of 3 runs"),
            Commented({"never": Commented("drop", "why")}, "a block"),
        ],
        "limits": Commented({"calls": 3, "duration": "0.5s", "quoted": "5"}, above=("what it takes",)),
    }
    assert yaml_text(document, ("two", "lines")) == (
        "# two\n"
        "# lines\n"
        "rules:\n"
        '  - {before: refund, call: [find, "look up"]}  # 3 of 3 runs\n'
        "  # a block\n"
        "  - never: drop  # why\n"
        "# what it takes\n"
        'limits: {calls: 3, duration: 0.5s, quoted: "5"}\n'
    )

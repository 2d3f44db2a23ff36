"""Whatever stands in a file, loading ends in a configuration or in an error of ours."""

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from tests.config.files import criteria_in, load_criteria
from toolgauge.config.load import load, shown
from toolgauge.config.model import Config
from toolgauge.model.errors import ConfigError

_WORDS = st.sampled_from(
    ["receivers", "otlp", "protocols", "grpc", "http", "endpoint", "exporters", "prometheus", "headers", "criteria",
     "criteria_files", "name", "evaluator", "expected", "expected_turns", "args", "output", "repeat", "when", "attributes",
     "reference", "file", "key", "pass_at", "tools", "writes", "assemble", "hold", "timeout", "late_memory", "for",
     "annotate", "off", "both", "10s", "64MiB", "localhost:1", "http://a:1", "${env:A}", "${env:B:-c}", "$$", "${", "<<",
     "redact", "patterns"]
)  # fmt: skip
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | _WORDS
_VALUES = st.recursive(
    _SCALARS,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(_WORDS | st.text(max_size=4), below, max_size=5),
    max_leaves=25,
)
_SECTIONS = st.dictionaries(st.sampled_from(sorted(Config.model_fields)), _VALUES, max_size=6)


def load_all(content: bytes) -> None:
    """Load as a start would."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "c.yaml"
        path.write_bytes(content)
        with suppress(ConfigError):
            load_criteria(load([path], (), {"A": "1"}), {})
        try:
            config = load([path], (), {"A": "1"})
        except ConfigError:
            return
        again = Path(folder) / "again.yaml"
        again.write_text(shown(config), encoding="utf-8")
        assert shown(load([again], (), {})) == shown(config)


@given(_SECTIONS)
@example({"criteria": [{"<<": None}]})
def test_values_of_any_kind_never_break_the_loading(sections: dict[str, object]):
    load_all(yaml.safe_dump(sections, allow_unicode=True).encode("utf-8", "surrogatepass"))  # pyright: ignore[reportUnknownMemberType] - in newer stubs


@given(st.lists(_VALUES, max_size=3) | st.lists(st.dictionaries(_WORDS, _VALUES, max_size=8), max_size=3))
def test_criteria_of_any_kind_never_break_the_loading(criteria: list[object]):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "c.yaml"
        path.write_bytes(yaml.safe_dump(criteria).encode())  # pyright: ignore[reportUnknownMemberType] - in newer stubs
        with suppress(ConfigError):
            for criterion in criteria_in(path):
                assert criterion.canonical()["name"] == criterion.name


@given(st.text(max_size=20), st.text(max_size=20))
def test_overrides_of_any_kind_never_break_the_loading(key: str, value: str):
    with suppress(ConfigError):
        load([], [f"{key}={value}"], {})

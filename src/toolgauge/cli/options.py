"""The options of `toolgauge check`, as its parts read them."""

import msgspec

# The word of `--fail-on` under which no result fails the command.
NOTHING = "nothing"


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for."""

    files: tuple[str, ...]
    config_paths: tuple[str, ...]
    overrides: tuple[str, ...]
    criteria_files: tuple[str, ...]
    view: str | None
    first: str | None
    cases: bool
    criterion: str | None
    trace_id: str | None
    failed: bool
    labels: str | None
    label_attribute: str | None
    label_pass_at: float | None
    label_names: tuple[str, ...]
    since: str
    labels_file: str | None
    cost: bool
    fail_on: tuple[str, ...]
    fail_under: dict[str, float]
    proved: bool
    baseline_file: str | None
    allow_nothing: bool
    as_json: bool
    junit_file: str | None
    markdown_file: str | None
    sarif_file: str | None
    html_file: str | None
    github: bool
    to: tuple[str, ...]

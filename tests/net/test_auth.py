from base64 import b64encode
from pathlib import Path

import pytest

from tests.rows import each_row
from toolgauge.model.errors import StartError
from toolgauge.net.auth import BrowserGuard, TokenGuard
from toolgauge.net.settings import Auth


@each_row("value", ["Bearer s3cret", "bearer s3cret", "Bearer   s3cret", " Bearer s3cret "])
def test_right_token_gets_in(value: str):
    assert TokenGuard(Auth(tokens=("other", "s3cret"))).admits(value)


@each_row(
    "value",
    [None, "", "Bearer", "Bearer ", "s3cret", "Basic s3cret", "Bearer s3cre", "Bearer s3crett", "Bearer \udcff"],
)
def test_anything_else_does_not(value: str | None):
    assert not TokenGuard(Auth(tokens=("s3cret",))).admits(value)


def test_without_a_scheme_the_header_is_the_token():
    guard = TokenGuard(Auth(tokens=("s3cret",), header="X-Api-Key", scheme=""))
    assert guard.header == "x-api-key"
    assert guard.admits("s3cret")
    assert not guard.admits("Bearer s3cret")


def test_tokens_of_a_file_change_while_running(tmp_path: Path):
    file = tmp_path / "tokens"
    file.write_text("one\n\n two \n")
    guard = TokenGuard(Auth(filename=str(file)))
    assert guard.admits("Bearer one")
    assert guard.admits("Bearer two")
    file.write_text("three, longer\n")
    assert not guard.admits("Bearer one")
    assert guard.admits("Bearer three, longer")


def test_the_mark_that_some_editors_put_before_a_text_is_no_part_of_the_first_token(tmp_path: Path):
    (tmp_path / "tokens").write_bytes("\ufefffirst\r\nsecond\r\n".encode())
    guard = TokenGuard(Auth(filename=str(tmp_path / "tokens")))
    assert guard.admits("Bearer first")
    assert guard.admits("Bearer second")


@pytest.mark.parametrize("is_gone", [True, False])
def test_token_file_without_tokens_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture, *, is_gone: bool):
    file = tmp_path / "tokens"
    file.write_text("one")
    guard = TokenGuard(Auth(filename=str(file)))
    if is_gone:
        file.unlink()
    else:
        file.write_text("")
    assert guard.admits("Bearer one")
    assert not guard.admits("Bearer ")
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert str(file) in record.getMessage()


def test_missing_file_is_named_at_the_start(tmp_path: Path):
    with pytest.raises(StartError, match=r"cannot read the token file .*tokens"):
        TokenGuard(Auth(filename=str(tmp_path / "tokens")))


def test_empty_token_file_is_an_error_at_the_start(tmp_path: Path):
    (tmp_path / "tokens").write_text("\n")
    with pytest.raises(StartError, match="no client could connect"):
        TokenGuard(Auth(filename=str(tmp_path / "tokens")))


def _basic(text: str | bytes) -> str:
    return "Basic " + b64encode(text if isinstance(text, bytes) else text.encode()).decode()


@each_row("value", ["Bearer s3cret", _basic(":s3cret"), _basic("me:s3cret"), _basic("me:pass:word")])
def test_a_browser_sends_the_token_as_a_password(value: str):
    guard = BrowserGuard(Auth(tokens=("s3cret", "pass:word")))
    assert guard.admits(value)
    assert guard.challenge == 'Basic realm="toolgauge", charset="UTF-8"'


@each_row(
    "value",
    [
        None,
        "",
        "Basic",
        "Basic ",
        "Basic !",
        "Basic s3cret",
        _basic("s3cret"),
        _basic("s3cret:"),
        _basic("me:wrong"),
        _basic(b"me:\xff"),
        "Digest " + _basic("me:s3cret").partition(" ")[2],
    ],
)
def test_anything_else_of_a_browser_does_not_get_in(value: str | None):
    assert not BrowserGuard(Auth(tokens=("s3cret",))).admits(value)

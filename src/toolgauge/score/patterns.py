"""Patterns that come from configuration, run in RE2: linear time on any text, however hostile pattern and text are."""

# google-re2 ships neither stubs nor annotations.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import re2

from toolgauge.model.errors import ConfigError


class Pattern:
    """A compiled RE2 pattern; `.` matches line ends too."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str) -> None:
        """Compile, or raise `ConfigError`."""
        options = re2.Options()
        options.dot_nl = True
        options.log_errors = False
        self.text = text
        try:
            self._compiled = re2.compile(_encodable(text), options)
        except re2.error as error:
            raise ConfigError(
                f"`{text[:100]}` is not a regular expression",
                hint="the syntax is RE2: no look-around, no back-references",
            ) from error

    def matches(self, text: str) -> bool:
        """Tell whether the pattern matches the whole text."""
        return self._compiled.fullmatch(_encodable(text)) is not None


def quoted(text: str) -> str:
    """Turn text into a pattern that matches only itself."""
    return str(re2.escape(_encodable(text)))  # pyright: ignore[reportUnknownArgumentType] (it is text)


def _encodable(text: str) -> str:
    # Lone surrogates cannot be written as UTF-8, which is what RE2 reads.
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")

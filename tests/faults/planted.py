"""Faults to plant in a copy of the project, each a change of one place."""

import tomllib
from pathlib import Path

import msgspec
from msgspec import Struct

PACKAGE = Path("src", "toolgauge")
# Plug-ins are tested in the room of the stage that they serve.
_TESTED_IN = {"dialects": "recognize", "evaluators": "score"}


class Fault(Struct, frozen=True):
    """`what` is wrong once `old`, which stands once in `file`, is `new`."""

    what: str
    file: str
    old: str
    new: str
    # The folder or module below `tests` that tests the file, where it is not the one of its package.
    tested_in: str = ""

    @property
    def path(self) -> Path:
        """The path from the project's root."""
        return PACKAGE / self.file

    @property
    def room(self) -> str:
        """The package of the file."""
        return self.file.partition("/")[0]

    @property
    def tests(self) -> str:
        """The tests of the file: a folder or a module."""
        return f"tests/{self.tested_in or _TESTED_IN.get(self.room, self.room)}"

    def plant(self, root: Path) -> str:
        """Write the fault into the tree at `root`, and return what stood there; ValueError where `old` does not stand once."""
        sound = (root / self.path).read_text()
        if sound.count(self.old) != 1:
            raise ValueError(f"`{self.file}` has {sound.count(self.old)} times, not once: {self.old}")
        (root / self.path).write_text(sound.replace(self.old, self.new))
        return sound


def planted_faults() -> list[Fault]:
    """Read all faults, in the order of their files."""
    written = tomllib.loads(Path(__file__).with_name("planted.toml").read_text())
    return msgspec.convert(written["fault"], list[Fault])

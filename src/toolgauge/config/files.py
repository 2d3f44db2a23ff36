"""Reading the files that a person named, with errors that say which."""

from pathlib import Path

from toolgauge.model.errors import ConfigError

_LARGEST_FILE = 256 * 2**20


def read_file(path: Path) -> bytes:
    """Read a whole file. Raises ConfigError."""
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise ConfigError(f"`{path}` is larger than {_LARGEST_FILE // 2**20} MiB")
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"cannot read `{path}`: {reason}") from error

"""`folder`: writes every request to a file of its own; `toolgauge check` reads those of traces and logs."""

import asyncio
from itertools import count
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from toolgauge.model.delivery import Signal
from toolgauge.model.errors import StartError

_ENDINGS = {"traces": "otlp.pb", "logs": "logs.otlp.pb", "metrics": "metrics.pb"}


class ToFolder:
    """Writes requests to files in `path`."""

    class Settings(BaseModel):
        """What people write under `exporters.folder`."""

        model_config = ConfigDict(frozen=True, extra="forbid")

        path: Path

    def __init__(self, settings: Settings) -> None:
        self._path = settings.path
        self._numbers = count(1)

    async def start(self) -> None:
        """Make the folder; an error that names it ends the start of toolgauge."""
        try:
            self._path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StartError(f"cannot write to `{self._path}`: {error.strerror}") from error

    async def send(self, signal: Signal, body: bytes) -> None:
        """Write a request. A full disk is an `OSError`: toolgauge tries again."""
        file = self._path / f"{next(self._numbers):06d}.{_ENDINGS[signal]}"
        # Nothing here may block the event loop.
        await asyncio.to_thread(file.write_bytes, body)

    async def close(self) -> None:
        """Nothing stays open."""

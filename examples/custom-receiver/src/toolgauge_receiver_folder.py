"""`folder`: takes in trace requests (`*.otlp.pb`) that are dropped into a folder, and deletes what was accepted."""

import asyncio
import logging
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from toolgauge.model.delivery import Accepted, Consumer, Invalid
from toolgauge.model.errors import StartError

_LOG = logging.getLogger(__name__)


class FromFolder:
    """Looks into `path` every `interval_s`."""

    class Settings(BaseModel):
        """What people write under `receivers.folder`."""

        model_config = ConfigDict(frozen=True, extra="forbid")

        path: Path
        interval_s: float = Field(default=1.0, gt=0)

    def __init__(self, settings: Settings, consumer: Consumer) -> None:
        self._settings = settings
        self._consumer = consumer
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to look; an error that names the folder ends the start of toolgauge."""
        if not self._settings.path.is_dir():
            raise StartError(f"`{self._settings.path}` is not a folder")
        self._looking = asyncio.create_task(self._look())

    async def stop(self, grace_s: float) -> None:
        """Look no more; the file that is being read gets its time."""
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            await asyncio.wait((looking,), timeout=grace_s)

    async def _look(self) -> None:
        while True:
            for file in sorted(self._settings.path.glob("*.otlp.pb")):
                try:
                    await self._take(file)
                except Exception:  # noqa: BLE001 - the file stays and is tried again, whatever was wrong
                    _LOG.exception("cannot take in %s", file)
            await asyncio.sleep(self._settings.interval_s)

    async def _take(self, file: Path) -> None:
        # Nothing here may block the event loop.
        body = await asyncio.to_thread(file.read_bytes)
        answer = await self._consumer.consume("traces", body, None)
        match answer:
            case Accepted():
                await asyncio.to_thread(file.unlink)
            case Invalid(message=message):
                _LOG.error("%s holds no request: %s", file, message)
                await asyncio.to_thread(file.rename, file.with_suffix(".broken"))
            case _:
                # Refused: toolgauge has no room now, and the file waits.
                return

"""Writes the requests that arrive to a file that `toolgauge check`, `compare` and `doctor` read.

A thread writes, so that a slow disk delays no sender. Compressed files are a whole member a second: a killed process leaves
a readable file.
"""

import contextlib
import gzip
import logging
import lzma
import os
import queue
import re
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from functools import partial
from itertools import product
from typing import Literal, TypeAlias, get_args

from toolgauge.model.delivery import OtlpSignal, Signal
from toolgauge.model.errors import StartError
from toolgauge.otlp.request import framed
from toolgauge.settings import file_path

_LOG = logging.getLogger("toolgauge.export")
ENDINGS = (".otlp", ".otlp.gz", ".otlp.xz")
Loss: TypeAlias = Literal["queue_full", "write_failed", "shutdown"]
_REQUEST_BYTES = 512  # what a request takes in memory beside its body
_MAX_QUEUE_BYTES = 32 * 1024 * 1024
_MAX_MEMBER_BYTES = 4 * 1024 * 1024
_MEMBER_S = 1.0
_XZ_PRESET = 1  # higher ones take ten times the memory and time


_Arrived: TypeAlias = tuple[Signal, bytes]


class RecordingFile:
    """One recording, from `start` to `close`; `put` belongs to one thread. `losses` counts requests that were not written.
    `start` moves an existing file aside with `max_bytes`, where also a full file is moved aside and the newest `max_backups` of these
    are kept; with `replaces` it deletes it; otherwise it fails.
    """

    def __init__(
        self, path: str, *, max_bytes: int | None = None, max_backups: int = 0, replaces: bool = False
    ) -> None:
        self.path = file_path(path)
        compressions = {".otlp.gz": gzip.compress, ".otlp.xz": partial(lzma.compress, preset=_XZ_PRESET)}
        self._compress = compressions.get(_ending(self.path.name))
        self._max_bytes, self._max_backups = max_bytes, max_backups
        self._replaces = replaces
        self._requests: queue.SimpleQueue[_Arrived | None] = queue.SimpleQueue()
        # Each is written by one thread.
        self._bytes_in = 0
        self._bytes_out = 0
        self._writing: list[_Arrived] = []
        self._file: int | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._has_failed = False
        self.file_bytes = 0
        self.written = 0
        # The writing thread counts failures, the putting thread all other reasons.
        self.losses: Counter[tuple[Signal, Loss]] = Counter(
            dict.fromkeys(product(get_args(OtlpSignal), get_args(Loss)), 0)
        )

    def start(self) -> None:
        """Open the file, readable for its owner only; raise `StartError` when that cannot be."""
        try:
            if self._max_bytes is not None:
                self._move_aside()
            elif self._replaces and self.path.is_file():
                self.path.unlink()
            self._open()
        except FileExistsError:
            hint = "`--force` replaces it" if self.path.is_file() else None
            raise StartError(f"cannot record to `{self.path}`: it exists", hint=hint) from None
        except OSError as error:
            raise StartError(f"cannot record to `{self.path}`: {error.strerror}") from error
        self._thread = threading.Thread(target=self._run, name="toolgauge-recording", daemon=True)
        self._thread.start()
        _LOG.info("recording requests to `%s`", self.path)

    def put(self, signal: Signal, body: bytes) -> None:
        """Have a request written soon; without room it is not."""
        size_bytes = len(body) + _REQUEST_BYTES
        waiting = self._bytes_in - self._bytes_out
        if self._is_closed or (waiting and waiting + size_bytes > _MAX_QUEUE_BYTES):
            self.losses[signal, "shutdown" if self._is_closed else "queue_full"] += 1
            return
        self._bytes_in += size_bytes
        self._requests.put((signal, body))

    def close(self, timeout_s: float) -> None:
        """Write what waits, for as long at most. Works twice and without a start."""
        if self._thread is None or self._is_closed:
            return
        self._is_closed = True
        self._requests.put(None)
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            waiting = [*self._writing]
            while not self._requests.empty():
                with contextlib.suppress(queue.Empty):
                    if (request := self._requests.get_nowait()) is not None:
                        waiting.append(request)
            for signal, _ in waiting:
                self.losses[signal, "shutdown"] += 1
        if self.losses.total():
            _LOG.error("%d requests were not written to `%s`", self.losses.total(), self.path)

    def _run(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._gather()
            if self._writing:
                self._write(self._writing)
            self._bytes_out += sum(len(body) + _REQUEST_BYTES for _, body in self._writing)
            self._writing = []
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)

    def _gather(self) -> bool:
        """Wait for requests that are written together; return whether they are the last."""
        requests = self._writing
        size = 0
        until = None
        while size < _MAX_MEMBER_BYTES:
            try:
                request = self._requests.get(timeout=None if until is None else max(0.0, until - time.monotonic()))
            except queue.Empty:
                return False
            if request is None:
                return True
            requests.append(request)
            size += len(request[1])
            if until is None:
                until = time.monotonic() + (0 if self._compress is None else _MEMBER_S)
        return False

    def _write(self, requests: list[_Arrived]) -> None:
        try:
            data = b"".join(framed(signal, body) for signal, body in requests)
            self._append(data if self._compress is None else self._compress(data))
        except (OSError, MemoryError) as error:
            if not self._has_failed:
                _LOG.error("cannot write `%s`: %s; requests are received, and missing from it", self.path, error)
            self._has_failed = True
            for signal, _ in requests:
                self.losses[signal, "write_failed"] += 1
        else:
            self.written += len(requests)

    def _append(self, data: bytes) -> None:
        limit = self._max_bytes
        if limit is not None and self.file_bytes and self.file_bytes + len(data) > limit:
            file, self._file = self._file, None
            if file is not None:
                os.close(file)
            self._move_aside()
        file = self._open() if self._file is None else self._file
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(file, rest) :]
        except OSError:
            # The written part would be taken for the beginning of the next request.
            os.lseek(file, self.file_bytes, os.SEEK_SET)
            os.ftruncate(file, self.file_bytes)
            raise
        self.file_bytes += len(data)

    def _open(self) -> int:
        file = self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self.file_bytes = 0
        return file

    def _move_aside(self) -> None:
        """Rename the file after the time, and delete the oldest renamed files."""
        ending = _ending(self.path.name)
        stem = self.path.name.removesuffix(ending)
        if self.path.is_file() and not self.path.is_symlink():
            self.path.rename(self.path.with_name(f"{stem}-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}{ending}"))
        known = re.compile(re.escape(stem) + r"-\d{8}T\d{6}\.\d{6}Z" + re.escape(ending))
        backups = sorted(file for file in self.path.parent.iterdir() if known.fullmatch(file.name))
        for backup in backups[: max(0, len(backups) - self._max_backups)]:
            backup.unlink()


def recording_ending(name: str) -> str:
    """Return the ending of a recording's name; raise ValueError for other names."""
    ending = _ending(name)
    if not ending or name.removesuffix(ending).endswith(".logs"):
        raise ValueError(f"must end in {', '.join(f'`{each}`' for each in ENDINGS[:2])} or `{ENDINGS[2]}`")
    return ending


def _ending(name: str) -> str:
    return next((ending for ending in ENDINGS if name.endswith(ending)), "")

"""What a test may not leave behind: tasks of its event loop, sockets, threads that keep the process from ending."""

import asyncio
import contextlib
import gc
import os
import stat
import threading
import time
from collections.abc import AsyncIterator, Iterator
from inspect import iscoroutinefunction
from pathlib import Path

import grpc.aio
import pytest

_DESCRIPTORS = Path("/proc/self/fd")
_GRACE_S = 30.0


@pytest.fixture(scope="session", autouse=True)
def grpc_keeps_its_sockets() -> Iterator[None]:
    """Open what all event loops of gRPC share: else the test that happens to be the first is told to have leaked it."""
    grpc.aio.init_grpc_aio()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - not in its stubs
    yield
    grpc.aio.shutdown_grpc_aio()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - as above


@pytest.fixture
async def leaves_no_task() -> AsyncIterator[None]:
    """Fail the test whose tasks are still there when it is over."""
    before = asyncio.all_tasks()
    yield
    deadline = time.monotonic() + _GRACE_S
    while left := asyncio.all_tasks() - before - {asyncio.current_task()}:
        if time.monotonic() > deadline:
            pytest.fail(f"tasks are left: {sorted(str(task.get_coro()) for task in left)}")
        await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def leaves_no_socket_and_no_thread(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test that leaves more sockets or threads than there were."""
    if iscoroutinefunction(getattr(request, "function", None)):
        # First of all: the event loop has sockets of its own, and is closed after this.
        request.getfixturevalue("leaves_no_task")
    sockets, threads = _sockets(), _threads()
    yield
    deadline = time.monotonic() + _GRACE_S
    while left := [*(_sockets() - sockets), *(_threads() - threads)]:
        if time.monotonic() > deadline:
            pytest.fail(f"sockets or threads are left: {left}")
        gc.collect()
        time.sleep(0.01)


def _sockets() -> set[str]:
    """Sockets of this process by their numbers; empty where /proc does not tell."""
    found: set[str] = set()
    if not _DESCRIPTORS.exists():
        return found
    with os.scandir(_DESCRIPTORS) as descriptors:
        for descriptor in descriptors:
            # The listing's own descriptor is gone afterwards.
            with contextlib.suppress(OSError):
                status = descriptor.stat()
                if stat.S_ISSOCK(status.st_mode):
                    found.add(f"socket:[{status.st_ino}]")
    return found


def _threads() -> set[str]:
    # Those that an event loop lends work to end with the loop, which is closed after this.
    lent = "asyncio_"
    threads = [thread for thread in threading.enumerate() if not thread.daemon and not thread.name.startswith(lent)]
    return {f"{thread.name} ({thread.ident})" for thread in threads}

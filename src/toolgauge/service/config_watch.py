"""Notices that a file of the configuration has changed, and asks for a reload, as SIGHUP does.

It looks at states of files every few seconds: notifications of the kernel do not come for every file system, and Kubernetes
exchanges a link two directories above the file. What a look finds changed has to look the same at the next one, so that
nothing is loaded while it is being written.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from toolgauge.config.sources import FileState, Sources
from toolgauge.service.process import Faults, beside

_LOG = logging.getLogger("toolgauge")
_INTERVAL_S = 2.0
_MAX_NAMES = 5


class ConfigWatch:
    """Looks at the files that `find` finds, anew after each change. Make it before the configuration is loaded."""

    def __init__(self, find: Callable[[], Sources]) -> None:
        self._find = find
        self._sources = find()
        self._known: Mapping[Path, FileState] = self._sources.states()
        self._last = self._known

    async def run(self, ask: Callable[[], None], faults: Faults) -> None:
        """Look for ever, and ask for a reload after each change."""
        while True:
            await asyncio.sleep(_INTERVAL_S)
            changed: tuple[Path, ...] = ()
            with faults.survived():
                # A file system over the network may not answer for a while.
                changed = await beside(self.look, "watch")
            if changed:
                more = f" and {len(changed) - _MAX_NAMES} more" if len(changed) > _MAX_NAMES else ""
                names = ", ".join(f"`{path}`" for path in changed[:_MAX_NAMES])
                _LOG.info("reloading the configuration, of which has changed: %s%s", names, more)
                ask()

    def look(self) -> tuple[Path, ...]:
        """Return the files that have changed since the last reload, once they have not since the last look."""
        found = self._sources.states()
        is_settled, self._last = found == self._last, found
        if not is_settled or found == self._known:
            return ()
        paths = dict.fromkeys((*self._known, *found))
        changed = tuple(path for path in paths if found.get(path) != self._known.get(path))
        self._sources = self._find()
        # A file that was looked at keeps the state that was found: if it has changed meanwhile, that is a change.
        self._known = {path: found.get(path, state) for path, state in self._sources.states().items()}
        self._last = self._known
        return changed

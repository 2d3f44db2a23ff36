"""`python -m toolgauge`, and the command `toolgauge`: readies a server for signals before the imports, which take a second.

The default action of each of them would end the process: a SIGHUP of `systemctl reload` too, and in a container, where it is
process 1, SIGTERM would have no effect.
"""

import os
import signal
import sys
from types import FrameType


def run() -> int:
    """Run the command line and return its exit code."""
    if sys.argv[1:2] == ["serve"]:
        # It waits until a reload is possible. `toolgauge worker` inherits it blocked.
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGHUP,))
        for number in (signal.SIGTERM, signal.SIGINT):
            # A script's shell starts a background process with SIGINT ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _end)
    from toolgauge.cli.main import main  # noqa: PLC0415 (takes time)

    return main()


def _end(_number: int, _frame: FrameType | None) -> None:
    """End as an ordered stop does: nothing was received yet. An exception could be caught by a module that is imported."""
    os._exit(0)


if __name__ == "__main__":
    sys.exit(run())

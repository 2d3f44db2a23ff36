"""How many connections and files the process may have open: as many as the system allows it, not as many as it begins with.

The usual soft limit of 1,024 is there for programs that still use `select`; with it, a thousand idle clients would
leave no descriptor for anybody else.
"""

import contextlib
import sys

if sys.platform == "win32":

    def raise_descriptor_limit() -> None:
        """Do nothing: there is no such limit."""

else:
    import resource

    def raise_descriptor_limit() -> None:
        """Raise the soft limit to the hard one, where that is allowed."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # A sandbox may forbid it, and some systems allow less than they tell: then it stays as it is.
        with contextlib.suppress(OSError, ValueError):
            if soft != hard:
                resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

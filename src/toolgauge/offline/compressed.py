"""Files that people give us, and standard input, as they are or compressed by gzip or xz.

How a file begins tells, as standard input has no name, and names may be wrong.
"""

import gzip
import io
import lzma
import sys
import zlib
from pathlib import Path

STDIN = "-"
# What reading may raise.
UNREADABLE = (OSError, EOFError, lzma.LZMAError, zlib.error)

_GZIP, _XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"


def opened(file: str) -> io.BufferedReader:
    """Open a file as it is; `-` is standard input, which stays open."""
    if file == STDIN:
        # A copy of the descriptor: closing it must not close standard input.
        return open(sys.stdin.fileno(), "rb", closefd=False)
    return Path(file).open("rb")


def decompressed(source: io.BufferedReader) -> io.BufferedIOBase:
    """Read what is in it; closing this leaves a compressed `source` open."""
    beginning = source.peek(len(_XZ))
    if beginning.startswith(_GZIP):
        return gzip.open(source)
    return lzma.open(source) if beginning.startswith(_XZ) else source

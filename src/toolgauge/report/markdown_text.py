"""Hostile text made safe for Markdown as GitHub and GitLab read it.

Whatever could become a link, a mention, a cell or HTML is written as a character reference, and all of it is code: mentions
and links of issues are looked for after character references are resolved, but not in code.
"""

import re

from toolgauge.report.terminal import shortened

NAME_LENGTH = 60
_UNSAFE = re.compile(r"[^\w .-]|(?<=www)\.", re.ASCII)


def code(text: str | None, length: int = NAME_LENGTH) -> str:
    """Write a text as code that no Markdown reader takes for anything else."""
    if text is None:
        return "-"
    safe = _UNSAFE.sub(lambda found: f"&#{ord(found[0])};", shortened(text, length))
    return f"<code>{safe}</code>"

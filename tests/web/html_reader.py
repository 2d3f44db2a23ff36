"""HTML read back: which elements and attributes there are, and which text."""

from html.parser import HTMLParser

# Elements whose text stands apart, and elements without an end.
_BLOCKS = frozenset(("td", "th", "dt", "dd", "li", "p", "div", "h1", "h2", "h3", "option"))
_VOID = frozenset(("meta", "link", "input", "br", "hr", "img"))


class Html(HTMLParser):
    """Elements, attributes and text of a page. Reading one that is not well formed raises `AssertionError`."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.headings: list[int] = []
        self._texts: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    @property
    def text(self) -> str:
        """The text of the page, with single spaces."""
        return " ".join("".join(self._texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of an element."""
        if tag in _BLOCKS:
            self._texts.append(" ")
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in ("href", "action", "src")]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
            self.headings.append(int(tag[1]))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Match the end of an element with its beginning."""
        assert self._open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        """Take note of text."""
        self._texts.append(data)

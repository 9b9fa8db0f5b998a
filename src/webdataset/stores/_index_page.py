"""The links in a directory page of a web server."""

from __future__ import annotations

from html.parser import HTMLParser


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, None] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get("href")
        if tag == "a" and address and not address.startswith(("?", "#")):
            self.found[address] = None


def links(page: str) -> list[str]:
    """The links of a page, in their order.

    >>> links('<a href="?sort=name">Name</a> <a href="a.tar">a.tar</a> <a href="b/">b/</a>')
    ['a.tar', 'b/']
    """
    parser = _Links()
    parser.feed(page)
    return list(parser.found)

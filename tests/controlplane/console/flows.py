"""Walking the pages of the console as a browser would: forms are sent with what they carry."""

import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

from django.http import HttpResponse
from django.test import Client


class _Inputs(HTMLParser):
    """The named controls of a page's POST form and their values."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, Any] = {}
        self._is_in = False
        self._area = ""
        self._select = ""

    def handle_starttag(self, tag: str, pairs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in pairs}
        if tag == "form":
            self._is_in = given.get("method") == "post" and "/accounts/" not in given["action"]
        if not self._is_in:
            return
        name = given.get("name", "")
        if tag == "input" and name:
            if given.get("type") != "checkbox":
                self.found[name] = given.get("value", "")
            elif "checked" in given:
                self.found.setdefault(name, []).append(given.get("value") or "on")
        elif tag == "textarea":
            self._area = name
            self.found[name] = ""
        elif tag == "select":
            self._select = name
            self.found.setdefault(name, "")
        elif tag == "option" and self._select and "selected" in given:
            self.found[self._select] = given.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._is_in = False
        elif tag == "textarea":
            self._area = ""
        elif tag == "select":
            self._select = ""

    def handle_data(self, data: str) -> None:
        if self._area:
            self.found[self._area] += data


def inputs_of(page: str) -> dict[str, Any]:
    """What sending the page's form as it is would send."""
    parser = _Inputs()
    parser.feed(page)
    return parser.found


def words_of(page: str) -> str:
    """A page as its reader sees it: no tags, one blank between words."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


class Flow:
    """One form, from page to page."""

    def __init__(self, client: Client, path: str) -> None:
        self.client = client
        self.path = path
        self.response: Any = client.get(path)

    @property
    def page(self) -> str:
        return str(self.response.content.decode())

    @property
    def words(self) -> str:
        return words_of(self.page)

    def send(self, step: str, **values: str) -> HttpResponse:
        """Fill in these controls and press the button of a step; `__` stands for `-` in names."""
        filled = {name.replace("__", "-"): value for name, value in values.items()}
        data = {**inputs_of(self.page), **filled, "step": step}
        self.response = self.client.post(self.path.partition("?")[0], data)
        return self.response

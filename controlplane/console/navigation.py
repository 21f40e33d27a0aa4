"""The navigation: the pages that exist, in their groups."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Item:
    """One entry; current on the page of `url_name` and on those of `also`."""

    label: str
    url_name: str
    icon: str
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Entries under one word."""

    label: str
    items: tuple[Item, ...]


GROUPS = (Group("Observe", (Item("Requests", "requests", "list", ("request",)),)),)

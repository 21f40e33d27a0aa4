"""Every path of the console and the API, as the resolver has them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

_WRITING = ("post", "put", "patch", "delete")


@dataclass(frozen=True)
class Path:
    """One path: its name, how it is written, and the methods that do something."""

    name: str
    template: str
    methods: tuple[str, ...]


def paths() -> list[Path]:
    return sorted(set(_paths(get_resolver(), "/")), key=lambda one: (one.template, one.name))


def _paths(resolver: URLResolver, before: str) -> Iterator[Path]:
    for pattern in resolver.url_patterns:
        template = before + str(pattern.pattern).removeprefix("^").removesuffix(r"\Z")
        if isinstance(pattern, URLResolver):
            yield from _paths(pattern, template)
        elif not (pattern.name or "").startswith("account_"):
            name = pattern.name or template
            yield Path(name, template.removesuffix("$"), tuple(_methods(pattern)))


def _methods(pattern: URLPattern) -> Iterator[str]:
    view: Any = pattern.callback
    actions = getattr(view, "actions", None)
    if actions is not None:
        yield from (method.upper() for method in actions if method in ("get", *_WRITING))
        return
    kind = getattr(view, "view_class", None) or getattr(view, "cls", None)
    yield "GET"
    if kind is not None:
        yield from (method.upper() for method in _WRITING if hasattr(kind, method))

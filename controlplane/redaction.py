"""One scrubber for everything that is kept: log events, audit rows, reasons.

It works by name (a field called `credential` is never written), by shape (keys and tokens wherever
they stand) and by value (the installation's own secrets).
"""

import re
from collections.abc import Iterable, Mapping

MASK = "[redacted]"

_SECRET_NAMES = re.compile(
    r"(?i)(^|_|-)(password|passwd|secret|credential|authorization|cookie|sessionid|csrftoken"
    r"|pepper|peppers|api_?key|data_key|digest|digests)$"
)
_SECRET_SHAPES = re.compile(
    r"\bhwt?_[0-9A-Za-z]+\.[0-9A-Za-z_-]+"
    r"|(?i:\bbearer\s+)[^\s\"',;]+"
    r"|\bsk-[0-9A-Za-z_-]{8,}"
    r"|(?<=://)[^/\s:@]*:[^/\s@]+(?=@)"
)


def is_secret_name(name: str) -> bool:
    """Tell whether a field of this name holds a secret; `has_credential` does not."""
    return not name.startswith("has_") and bool(_SECRET_NAMES.search(name))


def scrub_text(text: str, known: Iterable[str] = ()) -> str:
    """Mask whatever looks like a key or token, and every known secret."""
    for secret in known:
        text = text.replace(secret, MASK)
    return _SECRET_SHAPES.sub(MASK, text)


def scrub_fields(fields: Mapping[str, object], known: tuple[str, ...] = ()) -> dict[str, object]:
    """Mask the fields whose names say so, and secrets anywhere inside the others."""
    return {
        name: MASK if item is not None and is_secret_name(str(name)) else scrub(item, known)
        for name, item in fields.items()
    }


def scrub(value: object, known: tuple[str, ...] = ()) -> object:
    """Mask secrets anywhere inside a JSON-like value; other values come back as they are."""
    if isinstance(value, str):
        return scrub_text(value, known)
    if isinstance(value, Mapping):
        return scrub_fields(value, known)
    if isinstance(value, list | tuple):
        return [scrub(item, known) for item in value]
    return value

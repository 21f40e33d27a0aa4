"""How live figures are written: figure and unit apart; unknown is "no data", never 0."""

from collections.abc import Sequence

from controlplane.console.formats import about_dollars

NO_DATA = "no data"
_DASH = "\N{EN DASH}"
_BYTES = ("B", "kB", "MB", "GB", "TB")

dollars = about_dollars


def number(value: float) -> str:
    """Three digits that matter, with k and M for thousands and millions."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if abs(value) >= size * (10 if unit == "k" else 1):
            return f"{_three(value / size)} {unit}"
    return _three(value)


def _three(value: float) -> str:
    if value == 0:
        return "0"
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2
    text = f"{value:,.{digits}f}"
    if digits and "." in text:
        text = text.rstrip("0").rstrip(".")
    return text if float(text.replace(",", "")) else f"{value:.2g}"


def milliseconds(value: float) -> str:
    """A duration: whole from 100 ms, seconds from 10 s."""
    if value >= 10_000:
        return f"{value / 1_000:,.1f} s"
    return f"{value:,.0f} ms" if value >= 100 else f"{_three(value)} ms"


def per_cent(share: float) -> str:
    """A share of 1 in per cent."""
    return f"{_three(100 * share)} %"


def size(value: float) -> str:
    """Bytes, in the largest unit that leaves a whole number before the point."""
    unit = 0
    while value >= 1_000 and unit < len(_BYTES) - 1:
        value, unit = value / 1_000, unit + 1
    return f"{_three(value)} {_BYTES[unit]}"


def count(value: int, noun: str) -> str:
    """A number of things, the noun in the plural where it is not one."""
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def named(names: Sequence[str], most: int = 3) -> str:
    """A few by name, the rest by number."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def parts(text: str) -> tuple[str, str]:
    """Figure and unit of a text like `842 ms`; a k or M belongs to the figure."""
    figure, _, unit = text.rpartition(" ")
    if not figure:
        return text, ""
    return (text, "") if unit in ("k", "M") else (figure, unit)


def idle_minute(*, is_reported: bool) -> str:
    """Why the last minute has no share of failures."""
    return f"{'No requests' if is_reported else 'No gateway reported'} in the last minute."

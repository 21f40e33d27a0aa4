"""How figures are written for people. Unknown is a dash or its own word, never 0."""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from math import floor, log10
from zoneinfo import ZoneInfo

from django.utils.html import format_html

UNKNOWN = "\N{EN DASH}"
NO_PRICE = "no price"

_NANO = Decimal(1).scaleb(-9)
_CENT = 10**7
_DOLLAR = 10**9
_SECONDS_FROM_MS = 10_000


def dollars(nanousd: int, decimals: int = 2) -> str:
    """Nano-USD as dollars, exact, with so many digits after the point or as many as it takes."""
    whole, fraction = f"{abs(nanousd) * _NANO:,.9f}".split(".")
    sign = "\N{MINUS SIGN}" if nanousd < 0 else ""
    return f"{sign}${whole}.{fraction.rstrip('0').ljust(decimals, '0')}"


def signed_dollars(nanousd: int) -> str:
    """A difference in dollars, with its sign."""
    return f"+{dollars(nanousd)}" if nanousd > 0 else dollars(nanousd)


def about_dollars(nanousd: float) -> str:
    """Nano-USD to the cent, or to two digits that matter if it is less than one."""
    size = abs(nanousd)
    places = -7 if size >= _CENT else 1 - floor(log10(max(size, 1)))
    return dollars(int(round(nanousd, places)))


def readable_dollars(nanousd: int) -> str:
    """Nano-USD to the cent, or to three digits that matter if it is less than a dollar."""
    size = abs(nanousd)
    places = -7 if size >= _DOLLAR else 2 - floor(log10(max(size, 1)))
    return dollars(round(nanousd, min(places, 0)))


def money(nanousd: int | None) -> str:
    """A cell of money that can be read at a glance; its title is the exact amount."""
    if nanousd is None:
        return NO_PRICE
    exact, told = dollars(nanousd), readable_dollars(nanousd)
    return told if told == exact else format_html('<span title="{}">{}</span>', exact, told)


def decimals_of(amounts: Iterable[int | None]) -> int:
    """How many digits after the point one column of dollars needs so that all of it lines up."""
    fractions = (f"{abs(one) * _NANO:.9f}".partition(".")[2] for one in amounts if one is not None)
    return max((len(fraction.rstrip("0")) for fraction in fractions), default=0)


def cost(nanousd: int | None, max_nanousd: int | None, decimals: int = 2) -> str:
    """What was booked; marked as a bound where it can have been more."""
    if nanousd is None:
        return NO_PRICE
    if max_nanousd is None or max_nanousd <= nanousd:
        return dollars(nanousd, decimals)
    if nanousd == 0:
        return f"\N{LESS-THAN OR EQUAL TO} {dollars(max_nanousd, decimals)}"
    return f"\N{GREATER-THAN OR EQUAL TO} {dollars(nanousd, decimals)}"


def milliseconds(value: float | None) -> tuple[str, str]:
    """A duration as figure and unit: tenths below 100 ms, seconds from 10 s."""
    if value is None:
        return UNKNOWN, ""
    if value >= _SECONDS_FROM_MS:
        return f"{value / 1000:,.1f}", "s"
    if value >= 100:
        return f"{value:,.0f}", "ms"
    return f"{value:,.1f}", "ms"


def duration(value: float | None) -> str:
    """A duration in one piece."""
    return " ".join(part for part in milliseconds(value) if part)


def count(value: int | None) -> str:
    """A whole number with separators."""
    return UNKNOWN if value is None else f"{value:,}"


def tokens(prompt: int | None, completion: int | None) -> str:
    """Tokens in and out."""
    if prompt is None and completion is None:
        return UNKNOWN
    return f"{count(prompt)} / {count(completion)}"


def share(part: int | None, whole: int | None) -> str:
    """A part of a whole in per cent, one digit after the point."""
    if part is None or not whole:
        return UNKNOWN
    return f"{100 * part / whole:.1f}"


def clock(at: datetime, zone: ZoneInfo, *, has_date: bool = True) -> str:
    """A time in a zone, to the millisecond, with or without its date and zone."""
    local = at.astimezone(zone)
    time = f"{local:%H:%M:%S}.{local.microsecond // 1000:03d}"
    if not has_date:
        return time
    return f"{local.day} {local:%b %Y} {time} {local:%Z}"


def minute(at: datetime, zone: ZoneInfo) -> str:
    """A day and its hour and minute in a zone."""
    local = at.astimezone(zone)
    return f"{local.day} {local:%b %Y %H:%M}"


def worker(pool_id: str | None, pool_name: str | None, worker_id: str | None) -> str:
    """A worker as people name it: its pool and its number in it."""
    if worker_id is None:
        return UNKNOWN
    ordinal = worker_id.removeprefix(f"{pool_id}-")
    if pool_name is None or ordinal == worker_id:
        return worker_id
    return f"{pool_name}/{ordinal}"


def percentage(value: float | None) -> str:
    """A value in per cent, whole."""
    return UNKNOWN if value is None else f"{value:.0f} %"


def size(size_bytes: int | None) -> str:
    """An amount of data in the largest unit that leaves a figure before the point."""
    if size_bytes is None:
        return UNKNOWN
    amount, units = float(size_bytes), iter(("B", "KB", "MB", "GB"))
    for unit in units:
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit in ("B", "KB") else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:,.1f} TB"


def elapsed(seconds: float | None) -> str:
    """A stretch of time in its two largest units: 4 d 2 h, 18 h 40 min, 4 min 50 s."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, int(seconds))
    parts = (
        (whole // 86_400, "d"),
        (whole // 3_600 % 24, "h"),
        (whole // 60 % 60, "min"),
        (whole % 60, "s"),
    )
    first = next((place for place, part in enumerate(parts) if part[0]), len(parts) - 1)
    told = [f"{figure} {unit}" for figure, unit in parts[first : first + 2] if figure]
    return " ".join(told) or "0 s"

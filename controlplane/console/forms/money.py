"""Money in forms: typed in US dollars, kept in whole nano-USD."""

from decimal import Decimal
from typing import Any

from django.forms import DecimalField

_NANO = 10**9
_MOST_DOLLARS = 9 * 10**9


class DollarsField(DecimalField):
    """US dollars with up to nine digits after the point; its value is whole nano-USD."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("min_value", Decimal(0))
        options.setdefault("max_value", Decimal(_MOST_DOLLARS))
        super().__init__(decimal_places=9, **options)

    def clean(self, value: Any) -> int | None:
        dollars = super().clean(value)
        return None if dollars is None else int(dollars * _NANO)

    def prepare_value(self, value: Any) -> Any:
        """What the control shows: nano-USD of a row as dollars, what was typed as it was."""
        if isinstance(value, int) and not isinstance(value, bool):
            text = f"{Decimal(value) / _NANO:.9f}".rstrip("0")
            whole, _, fraction = text.partition(".")
            return f"{whole}.{fraction.ljust(2, '0')}"
        return value

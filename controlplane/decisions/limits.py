"""What a limit counts, in words; and whether it would have been felt."""

from inference.contract.kinds import Enforcement, LimitUnit, LimitWindow

_UNITS = {
    LimitUnit.REQUESTS: ("request", "requests"),
    LimitUnit.INPUT_TOKENS: ("input token", "input tokens"),
    LimitUnit.OUTPUT_TOKENS: ("output token", "output tokens"),
    LimitUnit.TOTAL_TOKENS: ("token in and out", "tokens in and out"),
    LimitUnit.PARALLEL: ("request at once", "requests at once"),
}
_WINDOWS = {
    LimitWindow.SECOND: "a second",
    LimitWindow.MINUTE: "a minute",
    LimitWindow.HOUR: "an hour",
    LimitWindow.DAY: "a day",
}


def unit_words(unit: str, amount: int | None = None) -> str:
    """A unit as people call it; one of them if the amount is 1."""
    one, many = _UNITS[LimitUnit(unit)]
    return one if amount == 1 else many


def amount_words(unit: str, window: str | None, amount: int) -> str:
    """`600 requests a minute`, `8 requests at once`; an amount of 0 is none at all, ever."""
    if amount == 0:
        return "no requests"
    words = f"{amount:,} {unit_words(unit, amount)}"
    return words if window is None else f"{words} {_WINDOWS[LimitWindow(window)]}"


def limit_words(unit: str, window: str | None, amount: int, subject: str) -> str:
    """`600 requests a minute for each key`; `subject` as `subjects.subject_words` tells it."""
    return f"{amount_words(unit, window, amount)} for {subject}"


def window_words(window: str | None) -> str:
    """`a minute`; a limit without a window holds at any moment."""
    return "at any moment" if window is None else _WINDOWS[LimitWindow(window)]


def enforcement_words(enforcement: str, unit: str) -> str:
    """What happens where the store that counts can't be asked, and how exact it is."""
    is_of_tokens = unit not in (LimitUnit.REQUESTS, LimitUnit.PARALLEL)
    if enforcement == Enforcement.STRICT:
        words = "Strict: refuses when the store that counts does not answer."
        if is_of_tokens:
            words += " Takes the most a request may use beforehand, so it is never passed."
        return words
    words = "Lenient: serves and marks requests when the store that counts does not answer."
    if is_of_tokens:
        words += " Counts what was used, so requests under way may pass it."
    return words

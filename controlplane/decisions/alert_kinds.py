"""The vocabulary of alerts: what is watched, in which places, and what becomes of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class AlertKind(StrEnum):
    """What a rule watches; the file that measures it has the same name."""

    ERROR_RATE = "error_rate"
    FIRST_TOKEN = "first_token"
    SATURATION = "saturation"
    BREAKER_OPEN = "breaker_open"
    POOL_DOWN = "pool_down"
    GATEWAY_SILENT = "gateway_silent"
    DEAD_CHANNEL = "dead_channel"
    LEDGER_BEHIND = "ledger_behind"
    BOOKS_DIFFER = "books_differ"
    BUDGET_USED = "budget_used"
    BUDGET_FORECAST = "budget_forecast"
    SPEND_RATE = "spend_rate"
    BURN_RATE = "burn_rate"
    KV_USED = "kv_used"
    CACHE_FALSE_HITS = "cache_false_hits"


class AlertScope(StrEnum):
    """Where it is watched: the installation, organisations, or pools, routes, budgets, teams,
    projects or keys, each apart."""

    ALL = "all"
    ORGANISATION = "organisation"
    POOL = "pool"
    ROUTE = "route"
    BUDGET = "budget"
    TEAM = "team"
    PROJECT = "project"
    KEY = "key"


class Severity(StrEnum):
    CRITICAL = "critical"
    WARNING = "warning"
    NOTICE = "notice"


class NoData(StrEnum):
    """What a rule makes of a place of which nothing is known: it holds what is, ends an alert after
    a while, or is an alert itself.
    """

    KEEP = "keep"
    RESOLVE = "resolve"
    ALERT = "alert"


class EpisodeState(StrEnum):
    """How far people are with an alert; all but the last are of what still holds."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    SNOOZED = "snoozed"
    RESOLVED = "resolved"


class ChannelKind(StrEnum):
    """Ways to reach people; the file that does has the same name."""

    EMAIL = "email"
    SLACK = "slack"
    SLACK_BOT = "slack_bot"
    WEBHOOK = "webhook"


class DeliveryKind(StrEnum):
    """What a message tells."""

    FIRED = "fired"
    REMINDED = "reminded"
    ESCALATED = "escalated"
    WORSENED = "worsened"
    UPDATED = "updated"
    DIGEST = "digest"
    RESOLVED = "resolved"
    SWITCHED = "switched"
    TEST = "test"
    REPORT = "report"


class DeliveryState(StrEnum):
    """How far a message came; the last three are not sent again unless somebody asks.

    A held one waits for a digest or for quiet hours to be over, a folded one is told by another. Of
    an unknown one nobody can find out whether it went out.
    """

    HELD = "held"
    QUEUED = "queued"
    SENDING = "sending"
    SENT = "sent"
    FOLDED = "folded"
    FAILED = "failed"
    UNKNOWN = "unknown"


_TRAFFIC = (AlertScope.ORGANISATION, AlertScope.ROUTE, AlertScope.POOL, AlertScope.ALL)
_POOLS = (AlertScope.POOL,)
_BUDGETS = (AlertScope.BUDGET,)
_ROUTES = (AlertScope.ROUTE,)
_SPENDING = (
    *(AlertScope.ORGANISATION, AlertScope.ROUTE),
    *(AlertScope.TEAM, AlertScope.PROJECT, AlertScope.KEY),
)
NAMED_PLACES = (
    *(AlertScope.POOL, AlertScope.ROUTE),
    *(AlertScope.TEAM, AlertScope.PROJECT, AlertScope.KEY),
)
"""Places that are told with their kind: `pool mine`."""
_WHOLE = (AlertScope.ORGANISATION, AlertScope.ALL)

MOMENT = (0, 0)
"""Windows of what is measured at one moment."""


@dataclass(frozen=True, slots=True)
class Traits:
    """One kind: its words, its unit, where it can be watched and in which bounds.

    It fires at `threshold` or more; where places have thresholds of their own, at each of those
    that isn't below it. `windows` are the least and the greatest window, in seconds,
    MOMENT where none is looked at. `has_history` tells whether it can be asked of the past.
    """

    title: str
    words: str
    unit: str
    scopes: tuple[AlertScope, ...]
    threshold: float
    least: float
    most: float
    windows: tuple[int, int] = MOMENT
    window_s: int = 0
    has_history: bool = False


TRAITS: Mapping[AlertKind, Traits] = {
    AlertKind.ERROR_RATE: Traits(
        "Error rate",
        "share of requests that failed by us or a worker",
        "%",
        _TRAFFIC,
        threshold=5.0,
        least=0.1,
        most=100.0,
        windows=(60, 3_600),
        window_s=300,
        has_history=True,
    ),
    AlertKind.FIRST_TOKEN: Traits(
        "First token, p95",
        "time to the first token that one stream in twenty exceeds",
        "ms",
        _TRAFFIC,
        threshold=2_000.0,
        least=1.0,
        most=3_600_000.0,
        windows=(60, 3_600),
        window_s=300,
        has_history=True,
    ),
    AlertKind.SATURATION: Traits(
        "Saturation",
        "longest wait for a worker with room",
        "s",
        _POOLS,
        threshold=5.0,
        least=0.1,
        most=3_600.0,
        windows=(60, 3_600),
        window_s=60,
        has_history=True,
    ),
    AlertKind.BREAKER_OPEN: Traits(
        "Breakers open",
        "breakers of a pool's workers that are open at a gateway process",
        "",
        _POOLS,
        threshold=1.0,
        least=1.0,
        most=10_000.0,
    ),
    AlertKind.POOL_DOWN: Traits(
        "Pool down",
        "share of the wanted workers that are not ready",
        "%",
        _POOLS,
        threshold=100.0,
        least=1.0,
        most=100.0,
    ),
    AlertKind.GATEWAY_SILENT: Traits(
        "Gateways silent",
        "gateways that reported within the last hour, did not sign off, and report no more",
        "",
        _WHOLE,
        threshold=1.0,
        least=1.0,
        most=10_000.0,
        has_history=True,
    ),
    AlertKind.DEAD_CHANNEL: Traits(
        "Dead channels",
        "channels that were switched off because they kept failing",
        "",
        _WHOLE,
        threshold=1.0,
        least=1.0,
        most=10_000.0,
    ),
    AlertKind.LEDGER_BEHIND: Traits(
        "Ledger behind",
        "age of the oldest usage event that is not recorded yet",
        "s",
        _WHOLE,
        threshold=60.0,
        least=1.0,
        most=86_400.0,
    ),
    AlertKind.BOOKS_DIFFER: Traits(
        "Books differ",
        "figures in which gateways, journals, ledger and roll-ups differ",
        "",
        _WHOLE,
        threshold=1.0,
        least=1.0,
        most=10_000.0,
    ),
    AlertKind.BUDGET_USED: Traits(
        "Budget used",
        "share of a budget that is spent, at each of its own thresholds from this one on",
        "%",
        _BUDGETS,
        threshold=50.0,
        least=1.0,
        most=1_000.0,
    ),
    AlertKind.BUDGET_FORECAST: Traits(
        "Budget forecast",
        "share of a budget that will be spent at the end of its period, at its pace so far",
        "%",
        _BUDGETS,
        threshold=100.0,
        least=1.0,
        most=1_000.0,
    ),
    AlertKind.SPEND_RATE: Traits(
        "Unusual spending",
        "spending in an hour above the same hour of the last 14 days, in robust deviations",
        "deviations",
        _SPENDING,
        threshold=6.0,
        least=2.0,
        most=1_000.0,
        windows=(3_600, 3_600),
        window_s=3_600,
        has_history=True,
    ),
    AlertKind.BURN_RATE: Traits(
        "Error budget burn",
        "how many times too fast a route's objectives are missed, in the window and in a twelfth "
        "of it",
        "\N{MULTIPLICATION SIGN}",
        _ROUTES,
        threshold=14.4,
        least=1.0,
        most=10_000.0,
        windows=(3_600, 259_200),
        window_s=3_600,
        has_history=True,
    ),
    AlertKind.KV_USED: Traits(
        "KV cache used",
        "share of the KV cache in use at a pool's fullest worker",
        "%",
        _POOLS,
        threshold=95.0,
        least=1.0,
        most=100.0,
        windows=(60, 3_600),
        window_s=300,
        has_history=True,
    ),
    AlertKind.CACHE_FALSE_HITS: Traits(
        "False hits of caches",
        "share of a route's checked hits by meaning that were false",
        "%",
        _ROUTES,
        threshold=2.0,
        least=0.1,
        most=100.0,
        windows=(3_600, 2_592_000),
        window_s=86_400,
    ),
}


def value_words(kind: str, value: float | None) -> str:
    """A value with its unit: `7.5 %`, `2,300 ms`, `3`; a dash if there is none."""
    if value is None:
        return "\N{EN DASH}"
    number = f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:,.1f}"
    unit = TRAITS[AlertKind(kind)].unit
    return f"{number} {unit}" if unit else number


def seconds_words(seconds: int) -> str:
    """`at once`, `45 s`, `5 min`, `2 h`."""
    if seconds == 0:
        return "at once"
    for length, word in ((3_600, "h"), (60, "min")):
        if seconds % length == 0:
            return f"{seconds // length} {word}"
    return f"{seconds} s"


def condition_words(kind: str, threshold: float, window_s: int, for_s: int) -> str:
    """`Error rate 5 % or more in 5 min, for 2 min`."""
    told = f"{TRAITS[AlertKind(kind)].title} {value_words(kind, threshold)} or more"
    if window_s:
        told += f" in {seconds_words(window_s)}"
    return f"{told}, for {seconds_words(for_s)}" if for_s else told


def breach_words(kind: str, value: float | None, threshold: float, place: str) -> str:
    """`Error rate at pool mine: 7.5 %; 5 % or more is an alert.`"""
    told = "not known now" if value is None else value_words(kind, value)
    title = TRAITS[AlertKind(kind)].title
    return f"{title} at {place}: {told}; {value_words(kind, threshold)} or more is an alert."


def place_words(scope: str, scope_id: str | None, name: str | None) -> str:
    """Where a rule watches: `pool mine`, `each route`, `the whole installation`."""
    if scope == AlertScope.ALL:
        return "the whole installation"
    if scope_id is not None:
        return f"{scope} {name or scope_id}"
    return "the whole organisation" if scope == AlertScope.ORGANISATION else f"each {scope}"

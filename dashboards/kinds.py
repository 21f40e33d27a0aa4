"""The closed vocabularies of live pages; panel files are named by the values of theirs."""

from enum import StrEnum


class Page(StrEnum):
    """The pages that are live."""

    OVERVIEW = "overview"
    POOL = "pool"
    ROUTE = "route"


class NeedKind(StrEnum):
    """What can need a person's attention."""

    ALERT = "alert"
    STORE = "store"
    NO_GATEWAY = "no_gateway"
    SILENT_GATEWAY = "silent_gateway"
    REFUSED_VERSION = "refused_version"
    FAILURES = "failures"
    POOL = "pool"
    DEGRADED = "degraded"
    BUDGET = "budget"
    NO_PRICE = "no_price"
    NO_DATA = "no_data"


class PanelKind(StrEnum):
    """The charts there are."""

    REQUESTS = "requests"
    FIRST_TOKEN = "first_token"
    OUTPUT_TOKEN = "output_token"
    TOKENS = "tokens"
    QUEUE = "queue"
    WAITING = "waiting"
    OLDEST_WAIT = "oldest_wait"
    SHED = "shed"
    DEGRADATION = "degradation"
    KV_CACHE = "kv_cache"
    UTILISATION = "utilisation"
    MEMORY = "memory"
    ERRORS = "errors"
    ERROR_CLASSES = "error_classes"
    COST = "cost"
    CACHE_HITS = "cache_hits"


class Form(StrEnum):
    """How values are drawn. Bars are stacked: they are parts of one total."""

    LINES = "lines"
    BARS = "bars"


class Measure(StrEnum):
    """What the values of a panel measure: how ticks, legends and tables print them."""

    PER_SECOND = "per_second"
    MILLISECONDS = "milliseconds"
    PER_CENT = "per_cent"
    COUNT = "count"
    BYTES = "bytes"
    DOLLARS = "dollars"


class Source(StrEnum):
    """What a tile's figure is made of."""

    REQUESTS = "requests"
    FAILURES = "failures"
    TOKENS = "tokens"
    COST = "cost"
    MONTH = "month"
    WORKERS = "workers"
    CACHES = "caches"


class Fold(StrEnum):
    """What becomes of the series beyond the fourth: their sum, their mean, or the most of them."""

    SUM = "sum"
    MEAN = "mean"
    MOST = "most"

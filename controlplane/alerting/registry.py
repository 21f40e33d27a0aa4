"""Which file measures which kind."""

from collections.abc import Mapping

from controlplane.alerting.base import Measure
from controlplane.alerting.measures import (
    books_differ,
    breaker_open,
    budget_forecast,
    budget_used,
    burn_rate,
    cache_false_hits,
    dead_channel,
    error_rate,
    first_token,
    gateway_silent,
    kv_used,
    ledger_behind,
    pool_down,
    saturation,
    spend_rate,
)
from controlplane.decisions.alert_kinds import AlertKind

REGISTRY: Mapping[AlertKind, Measure] = {
    AlertKind.ERROR_RATE: error_rate.measure,
    AlertKind.FIRST_TOKEN: first_token.measure,
    AlertKind.SATURATION: saturation.measure,
    AlertKind.BREAKER_OPEN: breaker_open.measure,
    AlertKind.POOL_DOWN: pool_down.measure,
    AlertKind.GATEWAY_SILENT: gateway_silent.measure,
    AlertKind.DEAD_CHANNEL: dead_channel.measure,
    AlertKind.LEDGER_BEHIND: ledger_behind.measure,
    AlertKind.BOOKS_DIFFER: books_differ.measure,
    AlertKind.BUDGET_USED: budget_used.measure,
    AlertKind.BUDGET_FORECAST: budget_forecast.measure,
    AlertKind.SPEND_RATE: spend_rate.measure,
    AlertKind.BURN_RATE: burn_rate.measure,
    AlertKind.KV_USED: kv_used.measure,
    AlertKind.CACHE_FALSE_HITS: cache_false_hits.measure,
}

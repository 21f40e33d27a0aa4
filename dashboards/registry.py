"""The panels there are, in the order in which pages show them."""

from collections.abc import Mapping, Sequence

from dashboards.base import Panel
from dashboards.kinds import Page, PanelKind
from dashboards.panels import (
    cache_hits,
    cost,
    degradation,
    error_classes,
    errors,
    first_token,
    kv_cache,
    memory,
    oldest_wait,
    output_token,
    queue,
    requests,
    shed,
    tokens,
    utilisation,
    waiting,
)

REGISTRY: Mapping[PanelKind, Panel] = {
    PanelKind.REQUESTS: requests.PANEL,
    PanelKind.FIRST_TOKEN: first_token.PANEL,
    PanelKind.OUTPUT_TOKEN: output_token.PANEL,
    PanelKind.TOKENS: tokens.PANEL,
    PanelKind.QUEUE: queue.PANEL,
    PanelKind.WAITING: waiting.PANEL,
    PanelKind.OLDEST_WAIT: oldest_wait.PANEL,
    PanelKind.SHED: shed.PANEL,
    PanelKind.DEGRADATION: degradation.PANEL,
    PanelKind.KV_CACHE: kv_cache.PANEL,
    PanelKind.UTILISATION: utilisation.PANEL,
    PanelKind.MEMORY: memory.PANEL,
    PanelKind.ERRORS: errors.PANEL,
    PanelKind.ERROR_CLASSES: error_classes.PANEL,
    PanelKind.COST: cost.PANEL,
    PanelKind.CACHE_HITS: cache_hits.PANEL,
}


def panels_of(page: Page) -> Sequence[Panel]:
    """The panels of a page."""
    return [panel for panel in REGISTRY.values() if page in panel.titles]

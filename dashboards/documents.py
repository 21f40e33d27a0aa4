"""What a live page is sent: the whole document over HTTP, then the newest buckets whole.

A document holds figures; a message holds, by panel and key of series, as many values as `at` has
buckets. Both carry the same sentences, tiles and lists, which are whole each time.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import msgspec

from controlplane.selectors.live import Summary
from dashboards import words
from dashboards.attention import Need, coverage_sentence, gap_needs_of, needs_of
from dashboards.base import Chart, PoolLine, Scene
from dashboards.figures import figure_of
from dashboards.kinds import Page
from dashboards.prices import NO_PRICE
from dashboards.registry import panels_of
from dashboards.tiles import tiles_of

_HEADLINE = 0.95
_encoder = msgspec.json.Encoder()


def encode(document: dict[str, Any]) -> str:
    """As JSON text."""
    return _encoder.encode(document).decode()


def document_of(scene: Scene, *, is_historical: bool) -> dict[str, Any]:
    """The whole page: all buckets of the window."""
    view = scene.view
    charts = [(panel, panel.draw(scene)) for panel in panels_of(scene.page)]
    return _shared(scene) | {
        "page": scene.page,
        "bucket_s": view.span.bucket_s,
        "zone": scene.zone_name,
        "is_historical": is_historical,
        "gap_needs": [_need(one) for one in gap_needs_of(scene)],
        "panels": {
            panel.kind: _words_of(chart) | {"figure": figure_of(panel, chart, scene)}
            for panel, chart in charts
        },
    }


def message_of(scene: Scene, *, epoch: str, seq: int) -> dict[str, Any]:
    """The newest buckets, whole; `seq` counts up by one a message of an epoch and a scope."""
    charts = [(panel, panel.draw(scene)) for panel in panels_of(scene.page)]
    return _shared(scene) | {
        "epoch": epoch,
        "seq": seq,
        "panels": {
            panel.kind: _words_of(chart)
            | {"values": {one.key: list(one.values) for one in chart.series}}
            for panel, chart in charts
        },
    }


def _need(one: Need) -> dict[str, Any]:
    return asdict(one) | {"icon": one.icon}


def _words_of(chart: Chart) -> dict[str, Any]:
    return {"sentence": chart.sentence, "now": chart.now}


def _shared(scene: Scene) -> dict[str, Any]:
    view = scene.view
    as_of = view.coverage.as_of
    return {
        "at": [int(one.timestamp()) for one in view.at],
        "covered": list(view.covered),
        "as_of": None if as_of is None else as_of.timestamp(),
        "coverage": {
            "live": view.coverage.live,
            "seen": view.coverage.seen,
            "missing": list(view.coverage.missing),
            "sentence": coverage_sentence(scene),
        },
        "partial": scene.is_partial,
        "tiles": {tile.name: asdict(tile.figure(scene)) for tile in tiles_of(scene.page)},
        "lines": {tile.name: list(tile.line(scene)) for tile in tiles_of(scene.page)},
        "needs": [_need(one) for one in needs_of(scene)],
        "pools": [_row(scene, pool) for pool in scene.pools] if scene.page is Page.OVERVIEW else [],
    }


STATES = {
    "ready": ("Ready", "ok", "ok"),
    "not_checked_yet": ("Not checked yet", "nodata", "idle"),
    "degraded": ("Degraded", "warn", "warn"),
    "starting": ("Starting", "clock", "info"),
    "down": ("Down", "crit", "crit"),
    "stopped": ("Stopped", "pause", "idle"),
    "draining": ("Draining", "clock", "info"),
    "drained": ("Drained", "pause", "idle"),
    "unknown": ("Unknown", "nodata", "idle"),
}
"""Word, icon and tone of a pool's state."""


def _row(scene: Scene, pool: PoolLine) -> dict[str, Any]:
    """A pool of the overview's table, as text; a figure nobody told is "no data" or a dash."""
    word, icon, tone = STATES[pool.state]
    summary = scene.view.pool_summaries.get(pool.id)
    figures = _NO_FIGURES if summary is None else _figures_of(summary, pool)
    return {
        "id": pool.id,
        "name": pool.name,
        "model": pool.model,
        "state": word,
        "icon": icon,
        "tone": tone,
        "reason": pool.reason,
        "ready": f"{_or_dash(pool.ready)} / {pool.wanted}",
        **figures,
    }


_DASH = "\N{EN DASH}"
_NO_FIGURES = {
    "kv_used": None,
    "kv": words.NO_DATA,
    "queue": f"{_DASH} / {_DASH}",
    "first_token": _DASH,
    "cost": _DASH,
}


def _figures_of(summary: Summary, pool: PoolLine) -> dict[str, Any]:
    used = summary.kv_used
    first = summary.first_token_ms.get(_HEADLINE)
    return {
        "kv_used": used,
        "kv": words.NO_DATA if used is None else words.per_cent(used),
        "queue": f"{_or_dash(summary.running)} / {_or_dash(summary.waiting)}",
        "first_token": _DASH if first is None else words.milliseconds(first),
        "cost": _cost_of(summary, pool),
    }


def _cost_of(summary: Summary, pool: PoolLine) -> str:
    cost = summary.cost_nanousd_per_hour
    if summary.lacks_price(is_priced=pool.is_priced):
        return NO_PRICE
    return _DASH if cost is None else words.dollars(cost)


def _or_dash(value: int | None) -> str:
    return _DASH if value is None else f"{value:,}"


def slots_of(pool_ids: Sequence[str], slots: int) -> dict[str, int]:
    """A colour for each pool, by age, so that it is the same on every page and at any time."""
    return {pool_id: 1 + place % slots for place, pool_id in enumerate(sorted(pool_ids))}

"""The figures at the top of a live page, as text, and the line each is the end of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dashboards import words
from dashboards.base import Scene, Values
from dashboards.gauges import mean, scaled, total
from dashboards.kinds import Page, Source
from dashboards.panels.utilisation import label as utilisation_label
from dashboards.percentiles import not_enough
from dashboards.prices import NO_PRICE, SOME_UNPRICED, lacks_price, priced_costs

_HEADLINE = 0.95
_NOTHING: Values = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """What a tile shows: `text` is empty where nothing is known, and `note` then says why."""

    text: str
    unit: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Tile:
    """One tile: its name in the document, its label, and how to get figure and line."""

    name: str
    label: str
    source: Source
    pages: Sequence[Page]
    figure: Callable[[Scene], Figure]
    line: Callable[[Scene], Values]


def _rate(value: float | None, unit: str, note: str = "last minute") -> Figure:
    return (
        Figure("", note=words.NO_DATA) if value is None else Figure(words.number(value), unit, note)
    )


def _figure(text: str | None, note: str) -> Figure:
    if text is None:
        return Figure("", note=words.NO_DATA)
    return Figure(*words.parts(text), note=note)


def _errors(scene: Scene) -> Figure:
    share = scene.view.summary.failure_share
    if share is None and scene.view.summary.requests_per_s == 0:
        return Figure("", note="no requests")
    return _figure(None if share is None else words.per_cent(share), "last minute")


def _percentile(value: float | None, samples: int) -> Figure:
    if value is None:
        return Figure("", note=not_enough(samples))
    return Figure(*words.parts(words.milliseconds(value)), note=f"last 5 minutes, n {samples:,}")


def _first_token(scene: Scene) -> Figure:
    summary = scene.view.summary
    return _percentile(summary.first_token_ms.get(_HEADLINE), summary.samples)


def _output_token(scene: Scene) -> Figure:
    summary = scene.view.summary
    return _percentile(summary.output_token_ms.get(_HEADLINE), summary.output_samples)


def _count(value: int | None) -> Figure:
    return Figure("", note=words.NO_DATA) if value is None else Figure(f"{value:,}", note="now")


def _queued(scene: Scene) -> Figure:
    queue = next(iter(scene.view.queues), None)
    if queue is None or queue.waiting_now is None:
        return Figure("", note=words.NO_DATA)
    longest = words.milliseconds(queue.oldest_wait_ms_now or 0.0)
    note = f"longest {longest}" if queue.waiting_now else "in the gateways"
    return Figure(f"{queue.waiting_now:,}", note=note)


def _kv_cache(scene: Scene) -> Figure:
    used = scene.view.summary.kv_used
    return _figure(None if used is None else words.per_cent(used), "mean of workers")


def _utilisation(scene: Scene) -> Figure:
    summary = scene.view.summary
    if summary.utilisation is None:
        return Figure("", note=words.NO_DATA)
    figure, unit = words.parts(words.per_cent(summary.utilisation / 100))
    of = utilisation_label(is_gpu=summary.is_gpu)
    return Figure(figure, f"{of} {unit}", "of all workers" if summary.is_gpu else "no GPU here")


def _cost(scene: Scene) -> Figure:
    summary = scene.view.summary
    rate = summary.cost_nanousd_per_hour
    if lacks_price(scene):
        return Figure("", note=NO_PRICE)
    if rate is None:
        return Figure("", note=words.NO_DATA)
    note = "last minute's rate"
    if summary.has_unknown_cost:
        note = SOME_UNPRICED
    elif summary.requests_per_s == 0 and rate == 0:
        note = "no requests"
    return Figure(words.dollars(rate), "/h", note)


def _month(scene: Scene) -> Figure:
    spent = scene.view.month_to_date_nanousd
    if spent is None:
        return Figure("", note=NO_PRICE)
    return Figure(words.dollars(spent), note=f"since 1 {scene.now.astimezone(scene.zone):%b}")


def _cache_hits(scene: Scene) -> Figure:
    share = scene.view.summary.cache_hit_share
    if share is None and scene.view.summary.requests_per_s is not None:
        return Figure("", note="no cache was asked")
    return _figure(None if share is None else words.per_cent(share), "last minute")


def _saved(scene: Scene) -> Figure:
    saved = scene.view.saved_today_nanousd
    if saved is None:
        return Figure("", note="nothing that has a price")
    return Figure(words.dollars(saved), note="today, by caches")


def _gauge(join: Callable[..., Values], name: str) -> Callable[[Scene], Values]:
    return lambda scene: join(
        scene.view.workers, lambda one: getattr(one, name), len(scene.view.at)
    )


_ALL = tuple(Page)
_WIDER = (Page.OVERVIEW, Page.POOL)
"""A route's workers serve other routes as well, and six tiles are a row."""
TILES = (
    Tile(
        "requests",
        "Requests",
        Source.REQUESTS,
        _ALL,
        lambda scene: _rate(scene.view.summary.requests_per_s, "req/s"),
        lambda scene: scene.view.total.requests_per_s,
    ),
    Tile(
        "errors",
        "Errors",
        Source.FAILURES,
        _ALL,
        _errors,
        lambda scene: scaled(scene.view.total.failure_share, 100.0),
    ),
    Tile(
        "first_token",
        "TTFT p95",
        Source.REQUESTS,
        _ALL,
        _first_token,
        lambda scene: scene.view.total.first_token_ms.get(_HEADLINE, _NOTHING),
    ),
    Tile(
        "output_token",
        "TPOT p95",
        Source.REQUESTS,
        _WIDER,
        _output_token,
        lambda scene: scene.view.total.output_token_ms.get(_HEADLINE, _NOTHING),
    ),
    Tile(
        "tokens_in",
        "Tokens in",
        Source.TOKENS,
        _ALL,
        lambda scene: _rate(scene.view.summary.prompt_tokens_per_s, "tok/s"),
        lambda scene: scene.view.total.prompt_tokens_per_s,
    ),
    Tile(
        "tokens_out",
        "Tokens out",
        Source.TOKENS,
        _ALL,
        lambda scene: _rate(scene.view.summary.completion_tokens_per_s, "tok/s"),
        lambda scene: scene.view.total.completion_tokens_per_s,
    ),
    Tile(
        "running",
        "Running",
        Source.WORKERS,
        _WIDER,
        lambda scene: _count(scene.view.summary.running),
        _gauge(total, "running"),
    ),
    Tile(
        "waiting",
        "Waiting",
        Source.WORKERS,
        _WIDER,
        lambda scene: _count(scene.view.summary.waiting),
        _gauge(total, "waiting"),
    ),
    Tile(
        "queued",
        "Queued",
        Source.WORKERS,
        (Page.POOL,),
        _queued,
        lambda scene: next((one.waiting for one in scene.view.queues), _NOTHING),
    ),
    Tile("kv_cache", "KV cache", Source.WORKERS, _WIDER, _kv_cache, _gauge(mean, "kv_used")),
    Tile(
        "utilisation",
        "Utilisation",
        Source.WORKERS,
        _WIDER,
        _utilisation,
        _gauge(mean, "utilisation"),
    ),
    Tile(
        "cost",
        "Cost rate",
        Source.COST,
        _ALL,
        _cost,
        priced_costs,
    ),
    Tile(
        "cache_hits",
        "From caches",
        Source.CACHES,
        (Page.OVERVIEW,),
        _cache_hits,
        lambda scene: scaled(scene.view.total.cache_hit_share, 100.0),
    ),
    Tile("saved", "Saved", Source.CACHES, (Page.OVERVIEW,), _saved, lambda scene: _NOTHING),
    Tile("month", "Month to date", Source.MONTH, (Page.OVERVIEW,), _month, lambda scene: _NOTHING),
)


def tiles_of(page: Page) -> Sequence[Tile]:
    """The tiles of a page."""
    return [tile for tile in TILES if page in tile.pages]

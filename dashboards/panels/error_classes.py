"""What requests failed of, by error code."""

from controlplane.selectors.live import TrafficSeries
from dashboards import words
from dashboards.base import OTHER_SLOT, Chart, Panel, Scene, Series, Values
from dashboards.kinds import Form, Measure, Page, PanelKind

_SLOTS = (5, 2, 4, 6, 7, 3, 1)
"""Warm hues first; which code has which depends on the names alone."""


def draw(scene: Scene) -> Chart:
    """Stack each code's share of the bucket's requests."""
    total, share = scene.view.total, scene.view.summary.failure_share
    codes = sorted(total.failures)
    return Chart(
        sentence=(
            "No requests failed in this window."
            if not any(v for values in total.failures.values() for v in values)
            else f"By error code: {words.named([code.replace('_', ' ') for code in codes])}."
        ),
        now="" if share is None else words.per_cent(share),
        series=tuple(
            Series(
                code, code.replace("_", " "), _shares(total.failures[code], total.requests), slot
            )
            for code, slot in zip(codes, [*_SLOTS, *[OTHER_SLOT] * len(codes)], strict=False)
        ),
    )


def _part(total: TrafficSeries, code: str, place: int) -> Series:
    slot = _SLOTS[place] if place < len(_SLOTS) else OTHER_SLOT
    shares = _shares(total.failures[code], total.requests)
    return Series(code, code.replace("_", " "), shares, slot)


def _shares(failures: Values, requests: Values) -> Values:
    return [
        100.0 * failed / whole if failed is not None and whole else None
        for failed, whole in zip(failures, requests, strict=True)
    ]


PANEL = Panel(
    kind=PanelKind.ERROR_CLASSES,
    titles={Page.POOL: "Errors by class"},
    unit="% of requests",
    measure=Measure.PER_CENT,
    draw=draw,
    form=Form.BARS,
)

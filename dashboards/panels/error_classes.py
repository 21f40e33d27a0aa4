"""What requests failed of, by error code."""

from controlplane.selectors.live import Summary
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
        sentence=_sentence(scene.view.summary),
        now="" if share is None else words.per_cent(share),
        series=tuple(
            Series(code, _name(code), _shares(total.failures[code], total.requests), slot)
            for code, slot in zip(codes, [*_SLOTS, *[OTHER_SLOT] * len(codes)], strict=False)
        ),
    )


def _sentence(summary: Summary) -> str:
    """Of the last minute: a live message has the newest buckets only, and can't tell the window."""
    share = summary.failure_share
    if share is None:
        return words.idle_minute(is_reported=summary.requests_per_s is not None)
    if not share:
        return "No requests failed in the last minute."
    told = f"{words.per_cent(share)} of requests failed in the last minute"
    codes = sorted(summary.failures, key=lambda code: (-summary.failures[code], code))
    return f"{told}: {words.named([_name(code) for code in codes])}." if codes else f"{told}."


def _name(code: str) -> str:
    return code.replace("_", " ")


def _shares(failures: Values, requests: Values) -> Values:
    return [
        100.0 * failed / whole if failed is not None and whole else None
        for failed, whole in zip(failures, requests, strict=True)
    ]


PANEL = Panel(
    kind=PanelKind.ERROR_CLASSES,
    titles=dict.fromkeys((Page.POOL, Page.ROUTE), "Errors by class"),
    unit="% of requests",
    measure=Measure.PER_CENT,
    draw=draw,
    form=Form.BARS,
)

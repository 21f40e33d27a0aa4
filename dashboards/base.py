"""What a panel is, and what it draws: values by bucket, not yet Plotly's."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo

from controlplane.selectors.alerts import Firing
from controlplane.selectors.budget_effects import Refusing
from controlplane.selectors.live import LiveView
from dashboards.kinds import Fold, Form, Measure, Page, PanelKind

Values = Sequence[float | None]

OTHER_SLOT = 8
"""The grey of "Other" and of what is no entity of ours."""

SLOTS = 7
"""Colours for entities; an entity keeps its own on every page."""


@dataclass(frozen=True, slots=True)
class PoolLine:
    """A pool as the overview lists it. `ready` is None when nobody can tell.

    `is_priced` is whether its model has a price.
    """

    id: str
    name: str
    model: str
    state: str
    reason: str
    ready: int | None
    wanted: int
    is_priced: bool = True


@dataclass(frozen=True, slots=True)
class Refusal:
    """A gateway process that refused a version of the configuration."""

    gateway: str
    version: int | None
    why: str


@dataclass(frozen=True, slots=True)
class Scene:
    """All facts a live page shows, read at one moment. `has_store` is whether the store answered.

    `slots` gives each pool its colour; `zone` is the one times are told in.
    """

    page: Page
    view: LiveView
    now: datetime
    zone: tzinfo
    zone_name: str
    pools: Sequence[PoolLine] = ()
    slots: Mapping[str, int] = field(default_factory=dict)
    refusals: Sequence[Refusal] = ()
    has_store: bool = True
    alerts: Sequence[Firing] = ()
    refusing: Sequence[Refusing] = ()

    @property
    def is_partial(self) -> bool:
        """Whether the newest bucket was still filling when it was read."""
        if not self.view.at:
            return False
        return self.view.at[-1] + timedelta(seconds=self.view.span.bucket_s) > self.now


@dataclass(frozen=True, slots=True)
class Series:
    """One line or one part of stacked bars, a value a bucket; `key` names it in live messages."""

    key: str
    label: str
    values: Values
    slot: int = 1
    dash: str = "solid"
    width: float = 1.75


@dataclass(frozen=True, slots=True)
class Chart:
    """What a panel shows of one scene.

    `sentence` says it in words, `now` is the current value with its unit or "". Where
    `is_of_workers`, a bucket is a gap if nothing was measured in it, else if no gateway reported
    it. `top` fixes the upper end of the scale.
    """

    sentence: str
    now: str
    series: tuple[Series, ...]
    is_of_workers: bool = False
    fold: Fold = Fold.SUM
    top: float | None = None


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart of the live pages; it stands on the pages that have a title for it."""

    kind: PanelKind
    titles: Mapping[Page, str]
    unit: str
    measure: Measure
    draw: Callable[[Scene], Chart]
    form: Form = Form.LINES

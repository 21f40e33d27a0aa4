"""The timings of one request as bars on one scale. Pure: rows in, positions out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from controlplane.console.formats import count, duration, worker
from controlplane.console.tables.requests import attempt_ms, total_ms
from controlplane.models import Charge, Request
from inference.contract.kinds import ChargeKind

_TICKS = (1, 2, 5)
_MOST_TICKS = 5
_LEAST_WIDTH = 0.22
_LAST_LABEL_PERCENT = 92.0
_LABEL_BEFORE_PERCENT = 80.0


@dataclass(frozen=True, slots=True)
class Step:
    """One row. `start` and `width` are per cent of the scale; `fill` is the colour's class."""

    label: str
    took: str
    start: float
    width: float
    fill: str
    name: str = ""
    note: str = ""
    icon: str = ""
    tone: str = ""
    is_part: bool = False
    url: str = ""

    @property
    def note_at(self) -> float:
        """Where the words after the bar begin."""
        return self.start + self.width + 0.8

    @property
    def is_note_before(self) -> bool:
        """Whether the words would leave the picture behind the bar, so they stand before it."""
        return self.note_at > 70

    @property
    def has_room_for_note(self) -> bool:
        """Whether there is room beside the bar at all; the table of attempts says it too."""
        return not self.is_note_before or self.start >= 30


@dataclass(frozen=True, slots=True)
class Tick:
    """One line of the scale."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Waterfall:
    """The whole picture. `first_token` is per cent of the scale, None when none came."""

    steps: Sequence[Step]
    ticks: Sequence[Tick]
    first_token: float | None
    first_token_label: str

    @property
    def is_label_before(self) -> bool:
        """Whether the first token's label stands left of its line, for want of room."""
        return self.first_token is not None and self.first_token > _LABEL_BEFORE_PERCENT


def draw(
    request: Request,
    charges: Iterable[Charge],
    links: Mapping[str, str] = MappingProxyType({}),
) -> Waterfall:
    """Lay the request's timings out, from its arrival at the gateway; `links` are pages by id."""
    ordered = sorted(charges, key=lambda charge: charge.attempt)
    end_ms = max(
        1.0,
        request.total_ms,
        request.queued_ms or 0.0,
        request.first_token_ms or 0.0,
        *(_start_ms(request, one) + one.duration_ms for one in ordered),
    )
    scale = 100.0 / end_ms
    steps = [
        *_queue_steps(request, scale),
        *(step for one in ordered for step in _attempt_steps(request, one, scale, links=links)),
        *_total_steps(request, scale),
    ]
    first_ms = request.first_token_ms
    first_token = None if first_ms is None else first_ms * scale
    ticks = [_without_clash(tick, first_token) for tick in _ticks(end_ms)]
    return Waterfall(steps, ticks, first_token, f"first token {duration(first_ms)}")


def _without_clash(tick: Tick, first_token: float | None) -> Tick:
    """The tick, unlabelled where the first token's label stands."""
    if first_token is None or first_token > _LABEL_BEFORE_PERCENT:
        is_clear = first_token is None or not -22.0 < tick.at - first_token < 4.0
    else:
        is_clear = not -6.0 < tick.at - first_token < 18.0
    return tick if is_clear else Tick(tick.at, "")


def _start_ms(request: Request, charge: Charge) -> float:
    after = charge.started_at - request.received_at
    return max(0.0, float(after.total_seconds()) * 1000)


def _queue_steps(request: Request, scale: float) -> list[Step]:
    if request.queued_ms is None:
        return []
    width = max(request.queued_ms * scale, _LEAST_WIDTH)
    return [Step("Waiting for a slot", duration(request.queued_ms), 0.0, width, "f2", icon="clock")]


def _attempt_steps(
    request: Request, charge: Charge, scale: float, *, links: Mapping[str, str]
) -> list[Step]:
    start_ms = _start_ms(request, charge)
    is_good = charge.error_code is None and charge.kind == ChargeKind.FINAL
    kind = attempt_kind(request, charge)
    attempt = Step(
        label=f"Attempt {charge.attempt}{f', {kind}' if kind else ''}",
        name=worker(charge.pool_id, charge.pool_name, charge.worker_id),
        url=links.get(charge.pool_id, ""),
        took=duration(attempt_ms(request, charge)),
        start=start_ms * scale,
        width=max(charge.duration_ms * scale, _LEAST_WIDTH),
        fill="f8" if is_good else "f5",
        note=charge.error_code or "",
        icon="ok" if is_good else "crit" if charge.error_code else "warn",
        tone="ok" if is_good else "crit" if charge.error_code else "warn",
    )
    return [attempt, *_phases(charge, start_ms, scale)]


def attempt_kind(request: Request, charge: Charge) -> str:
    """What an attempt was besides the first choice, by the decision record; "" if nothing."""
    steps = (request.decision or {}).get("attempts")
    place = charge.attempt - 1
    if not isinstance(steps, list) or not 0 <= place < len(steps):
        return ""
    step = steps[place]
    if not isinstance(step, Mapping):
        return ""
    return "hedge" if step.get("hedge") else "fallback" if step.get("fallbacks") else ""


def _phases(charge: Charge, start_ms: float, scale: float) -> list[Step]:
    first_ms = charge.first_token_ms
    if first_ms is None:
        return []
    rest_ms = max(0.0, charge.duration_ms - first_ms)
    return [
        Step(
            label="To the first token",
            took=duration(first_ms),
            start=start_ms * scale,
            width=max(first_ms * scale, _LEAST_WIDTH),
            fill="f1",
            note=_tokens_in(charge),
            is_part=True,
        ),
        Step(
            label="From first to last",
            took=duration(rest_ms),
            start=(start_ms + first_ms) * scale,
            width=max(rest_ms * scale, _LEAST_WIDTH),
            fill="f3",
            is_part=True,
        ),
    ]


def _tokens_in(charge: Charge) -> str:
    if charge.prompt_tokens is None:
        return ""
    cached = (
        f", {count(charge.cached_tokens)} from the prefix cache" if charge.cached_tokens else ""
    )
    return f"{count(charge.prompt_tokens)} tokens{cached}"


def _total_steps(request: Request, scale: float) -> list[Step]:
    whole_ms = total_ms(request)
    if whole_ms is None:
        return []
    width = max(whole_ms * scale, _LEAST_WIDTH)
    return [Step("Whole request", duration(whole_ms), 0.0, width, "f8", icon="clock")]


def _ticks(end_ms: float) -> list[Tick]:
    """Round figures from 0, few enough to be read."""
    step_ms = next(
        size * 10**power
        for power in range(-1, 12)
        for size in _TICKS
        if size * 10**power * _MOST_TICKS >= end_ms
    )
    scale = 100.0 / end_ms
    places = [number * step_ms for number in range(_MOST_TICKS + 1)]
    found = [Tick(at * scale, _tick_label(at, is_seconds=end_ms >= 1000)) for at in places]
    return [tick for tick in found if tick.at <= _LAST_LABEL_PERCENT]


def _tick_label(at_ms: float, *, is_seconds: bool) -> str:
    return f"{at_ms / 1000:g} s" if is_seconds else f"{at_ms:g} ms"

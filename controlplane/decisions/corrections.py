"""What a correction adds to roll-ups and budgets: its amount, at the place of what it corrects."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol, TypeVar

from controlplane.decisions.rollups import PricedKey, PricedSums, RollUps, Sums, Zones, roll_up
from inference.contract.events import Charge, End, Origin, Usage
from inference.contract.kinds import ChargeKind, Endpoint, Outcome

AnyKey = TypeVar("AnyKey")

_NOTHING = Usage(0, 0)


class Correction(Protocol):
    """A correction as it is stored, as far as it is needed here."""

    id: str
    organisation_id: str
    at: datetime
    received_at: datetime
    team_id: str
    project_id: str
    key_id: str
    route_id: str
    pool_id: str
    model_id: str
    end_user: str | None
    tags: Sequence[str] | None
    amount_nanousd: int
    was_unknown: bool
    is_request_known: bool


def end_of(one: Correction) -> End:
    """The correction as the end of a request that cost its amount and used nothing."""
    charge = Charge(
        attempt=1,
        target_id="",
        pool_id=one.pool_id,
        model_id=one.model_id,
        worker_id="",
        kind=ChargeKind.FINAL,
        usage=_NOTHING,
        started_at_ms=_ms(one.received_at),
        duration_ms=0.0,
        cost_nanousd=one.amount_nanousd,
    )
    origin = Origin(
        organisation_id=one.organisation_id,
        team_id=one.team_id,
        project_id=one.project_id,
        key_id=one.key_id,
        endpoint=Endpoint.CHAT,
        requested_model="",
        is_stream=False,
        gateway="",
        lineage="",
        version=0,
        route_id=one.route_id or None,
        end_user=one.end_user,
        tags=tuple(one.tags or ()),
    )
    return End(
        event_id=one.id,
        at_ms=_ms(one.at),
        received_at_ms=_ms(one.received_at),
        origin=origin,
        outcome=Outcome.OK,
        http_status=200,
        charges=(charge,),
        total_ms=0.0,
    )


def increments_of(corrections: Sequence[Correction], zones: Zones) -> RollUps:
    """What roll-ups get: amounts, and one request less of unknown cost where it's known since."""
    amounts = roll_up(map(end_of, corrections), zones)
    known = roll_up((end_of(one) for one in corrections if one.is_request_known), zones)
    less = {name: dict(getattr(known, name)) for name in ("minutes", "hours", "days", "named")}
    return replace(
        amounts,
        minutes=_amounts(amounts.minutes, less["minutes"]),
        hours=_amounts(amounts.hours, less["hours"]),
        days=_amounts(amounts.days, less["days"]),
        named=_amounts(amounts.named, less["named"]),
        priced=_priced(corrections, amounts, zones),
    )


def _priced(
    corrections: Sequence[Correction], amounts: RollUps, zones: Zones
) -> tuple[tuple[PricedKey, PricedSums], ...]:
    """Amounts, and the attempts less of unknown cost."""
    known = dict(roll_up((end_of(one) for one in corrections if one.was_unknown), zones).priced)
    return tuple(
        (
            key,
            PricedSums(
                cost_nanousd=one.cost_nanousd,
                unpriced=-known[key].attempts if key in known else 0,
            ),
        )
        for key, one in amounts.priced
    )


def _amounts(
    sums: Iterable[tuple[AnyKey, Sums]], known: dict[AnyKey, Sums]
) -> tuple[tuple[AnyKey, Sums], ...]:
    return tuple(
        (
            key,
            Sums(
                cost_nanousd=one.cost_nanousd,
                unknown_cost=-known[key].requests if key in known else 0,
            ),
        )
        for key, one in sums
    )


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1_000)

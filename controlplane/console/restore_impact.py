"""What a roll-back does besides the fields that differ: to workers, and to callers of routes."""

from collections.abc import Iterator, Mapping, Sequence

from controlplane.console.pool_facts import facts_of
from controlplane.console.reviews import LIVE, UNNOTICED, Reach
from controlplane.decisions.pools import Acting, acting_of, impact_of
from controlplane.models import Pool
from controlplane.services.drafts import Draft, RowChange
from inference.contract.kinds import Provisioner

RESTARTS = "Gateways run on it within a second; workers of pools restart, see Reach."


def how_a_restore_acts(draft: Draft, pools: Mapping[str, Pool]) -> str:
    """Whether gateways and workers will notice. `pools` are the rows as they are, by id."""
    if any(_moves_workers(change, pools) for change in draft.changes):
        return RESTARTS
    return LIVE if draft.sections else UNNOTICED


def reach_of_restore(
    draft: Draft, pools: Mapping[str, Pool], names: Mapping[str, str]
) -> Sequence[Reach]:
    """What the changed pools and routes mean for workers and callers, in words."""
    return tuple(_reach(draft, pools, names))


def _reach(draft: Draft, pools: Mapping[str, Pool], names: Mapping[str, str]) -> Iterator[Reach]:
    for change in draft.changes:
        name = _name_of(change, names)
        if change.noun == "pools":
            for words in _pool_words(change, pools):
                yield Reach(f"Pool {name}", words)
        elif change.noun == "routes" and change.after is None:
            yield Reach(f"Route {name}", "It goes; its callers are refused.")


def _pool_words(change: RowChange, pools: Mapping[str, Pool]) -> Sequence[str]:
    row = pools.get(change.object_id)
    if change.after is None:
        is_static = row is not None and row.provisioner == Provisioner.STATIC
        return ["Its addresses are no longer used." if is_static else "Its workers end."]
    if row is None or change.before is None:
        return ["It comes back, with the workers it had."]
    return impact_of(facts_of(row), change.after, ())


def _moves_workers(change: RowChange, pools: Mapping[str, Pool]) -> bool:
    if change.noun != "pools":
        return False
    row = pools.get(change.object_id)
    if row is None or change.before is None or change.after is None:
        return True
    ways = {acting_of(field, row.provisioner) for field in change.after}
    return bool(ways - {Acting.LIVE}) or not {"power", "replicas"}.isdisjoint(change.after)


def _name_of(change: RowChange, names: Mapping[str, str]) -> str:
    for side in (change.before, change.after):
        if side and isinstance(side.get("name"), str):
            return str(side["name"])
    return names.get(change.object_id, change.object_id)

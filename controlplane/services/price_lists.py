"""Importing a price list: what it would do, and doing it, as one version of the configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils import timezone

from controlplane.decisions.price_lists import (
    LineState,
    Planned,
    Unreadable,
    digest_of,
    plan_line,
    read_list,
    without_repeats,
)
from controlplane.errors import Conflict, Invalid
from controlplane.models import CatalogueModel, Organisation, Pool, Price
from controlplane.services.actors import Actor
from controlplane.services.prices import create_price, lock_price, revise
from controlplane.services.snapshots import configuration_edit, staged_once


@dataclass(frozen=True, slots=True)
class PriceList:
    """What a file comes to, line by line; `digest` stands for all of it."""

    lines: Sequence[Planned]

    @property
    def digest(self) -> str:
        return digest_of(self.lines)

    @property
    def counts(self) -> Mapping[str, int]:
        """How many lines there are of each state."""
        states = [one.state for one in self.lines]
        return {state.value: states.count(state) for state in LineState}


def preview_price_list(
    organisation: Organisation, content: str, *, is_confirmed: bool = False
) -> PriceList:
    """What importing a file would do now; raises Invalid of one that is none of prices."""
    return _Reading(organisation).planned(content, is_confirmed=is_confirmed)


def import_price_list(
    actor: Actor,
    *,
    organisation: Organisation,
    content: str,
    digest: str | None = None,
    is_confirmed: bool = False,
) -> PriceList:
    """Add the versions of all lines that aren't rejected, together; all or none of them.

    `digest` is that of the preview that was looked at: raises Conflict if something else would be
    done by now. Raises Invalid.
    """
    with configuration_edit():
        reading = _Reading(organisation)
        found = reading.planned(content, is_confirmed=is_confirmed)
        if digest is not None and digest != found.digest:
            raise Conflict("The price book has changed since: look at the preview again.")
        todo = [one for one in found.lines if one.state in (LineState.NEW, LineState.CHANGED)]
        if todo:
            with staged_once(actor, actor.reason or f"import of {len(todo)} prices"):
                for one in sorted(todo, key=_when):
                    reading.carry_out(actor, one, is_confirmed=is_confirmed)
    return found


def _when(one: Planned) -> float:
    begins = one.line.effective_from
    return 0.0 if begins is None else begins.timestamp()


class _Reading:
    """The book, models and pools that a file's lines are compared with."""

    def __init__(self, organisation: Organisation) -> None:
        self._models = _by_name(organisation.models.all())
        self._pools = _by_name(organisation.pools.all())
        prices = Price.objects.filter(organisation=organisation, removed_at__isnull=True)
        self._prices = {
            (one.model_id, one.pool_id): one for one in prices.prefetch_related("versions")
        }
        self._now = timezone.now()

    def planned(self, content: str, *, is_confirmed: bool) -> PriceList:
        try:
            lines = without_repeats(read_list(content), _ids(self._models), _ids(self._pools))
        except Unreadable as error:
            raise Invalid.field("content", str(error)) from error
        found = []
        for line in lines:
            model = self._models.get(line.model)
            pool = None if line.pool is None else self._pools.get(line.pool)
            is_known = model is not None and (line.pool is None or pool is not None)
            price = self._price(model, pool) if is_known else None
            version = None if price is None else price.at(line.effective_from or self._now)
            current = version.amounts if version is not None and version.is_priced else None
            found.append(
                plan_line(
                    line,
                    current=current,
                    is_known=is_known,
                    is_confirmed=is_confirmed,
                    is_taken=version is not None and version.effective_from == line.effective_from,
                )
            )
        return PriceList(found)

    def carry_out(self, actor: Actor, one: Planned, *, is_confirmed: bool) -> None:
        line = one.line
        model, pool = self._models[line.model], self._pools.get(line.pool or "")
        price = self._price(model, pool)
        if price is None:
            self._prices[model.pk, pool.pk if pool else None] = create_price(
                actor,
                model=model,
                pool=pool,
                effective_from=line.effective_from,
                is_confirmed=is_confirmed,
                **one.after,  # type: ignore[arg-type]
            )
            return
        locked = lock_price(price.pk)
        revise(actor, locked, line.effective_from, dict(line.amounts), is_confirmed=is_confirmed)

    def _price(self, model: CatalogueModel | None, pool: Pool | None) -> Price | None:
        if model is None:
            return None
        return self._prices.get((model.pk, None if pool is None else pool.pk))


def _ids(known: Mapping[str, CatalogueModel] | Mapping[str, Pool]) -> Mapping[str, str]:
    return {name: row.pk for name, row in known.items()}


def _by_name(rows):  # type: ignore[no-untyped-def]
    """Rows by name and by id; a name goes before an id."""
    found = {row.pk: row for row in rows}
    return {**found, **{row.name: row for row in rows}}

"""Acts on one worker of a pool, each with its review."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from controlplane.console.acting import ActPage
from controlplane.console.details import TAB
from controlplane.console.diffs import Line
from controlplane.console.forms.pools import PoolForm
from controlplane.console.nouns import POOLS
from controlplane.console.views.pools import REPLICAS, PoolWords
from controlplane.console.worker_acts import (
    DRAIN,
    RESTART,
    VERBS,
    lines_of_act,
    values_of,
)
from controlplane.decisions.pools import ACTING_WORDS, Acting
from controlplane.models import Pool
from controlplane.selectors.pools import list_pools_with_routes
from controlplane.services.actors import Actor
from controlplane.services.drafts import Draft
from controlplane.services.pools import update_pool


class WorkerAct(PoolWords, ActPage):
    """Drain, put back or restart one worker."""

    noun = POOLS
    selector = staticmethod(list_pools_with_routes)
    form_class = PoolForm
    verbs = VERBS

    def dispatch(
        self, request: HttpRequest, *args: Any, number: int, **kwargs: Any
    ) -> HttpResponseBase:
        self.number = number
        return super().dispatch(request, *args, **kwargs)

    def heading(self, row: Pool) -> str:
        return f"{self.verbs[self.act]} worker {self.title_of(row)}/{self.number}"

    def back_url(self, row: Pool) -> str:
        return f"{POOLS.detail_url(row.pk)}?{TAB}={REPLICAS}"

    def values_of(self, row: Pool) -> Mapping[str, Any]:
        return values_of(row, self.number, self.act)

    def lines_of_act(self, row: Pool, changes: Mapping[str, Any]) -> Sequence[Line]:
        return lines_of_act(row, self.number, changes)

    def words_of(self, row: Pool, changes: Mapping[str, Any], draft: Draft) -> str:
        if self.act == RESTART:
            return (
                "Only this worker is replaced, once its requests have ended or "
                f"{row.drain_timeout_s} seconds are over."
            )
        return ACTING_WORDS[Acting.LIVE]

    def is_act_risky(self, row: Pool, changes: Mapping[str, Any]) -> bool:
        return self.act in (DRAIN, RESTART)

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        return update_pool(
            actor, pool_id=row.pk, changes=changes, expected_version=expected_version
        )


def worker_act_views() -> Mapping[str, Any]:
    """The view of each act, by its name in the address."""
    return {name: WorkerAct.as_view(act=name) for name in VERBS}

"""The pages of pools."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpResponse, QueryDict
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone

from controlplane.console.acting import ActPage
from controlplane.console.api_calls import live_call, reading
from controlplane.console.creating import CreatePage
from controlplane.console.deleting import DeletePage
from controlplane.console.details import ACTIVITY, TAB, DetailPage, Fact, State, Tab
from controlplane.console.editing import EditPage
from controlplane.console.form_pages import FormPage
from controlplane.console.formats import UNKNOWN, about_dollars, count, milliseconds
from controlplane.console.forms.pools import PoolForm, credential_words
from controlplane.console.lists import SORT, Empty, ListPage, NounTable
from controlplane.console.nouns import MODELS, POOLS
from controlplane.console.pages import Action
from controlplane.console.pool_config import arguments_of, last_applied, settings_of
from controlplane.console.pool_facts import (
    PoolsNow,
    WorkerRow,
    condition_state,
    facts_of,
    is_settled,
    names_by_rule,
    panic_words,
    read_pool_now,
    read_pools_now,
    ready_words,
    route_names,
    worker_rows,
)
from controlplane.console.reviews import Impact, Reach, checks_of
from controlplane.console.tables.pools import PoolTable
from controlplane.console.worker_acts import acts_of
from controlplane.decisions.pools import ACTING_WORDS, Acting, acting_of, impact_of
from controlplane.errors import Conflict
from controlplane.models import Pool
from controlplane.selectors.filters import PoolFilters
from controlplane.selectors.models import list_models
from controlplane.selectors.pools import list_pools, list_pools_with_routes
from controlplane.services.actors import Actor
from controlplane.services.drafts import Draft
from controlplane.services.pools import create_pool, delete_pool, update_pool
from inference.contract.kinds import PoolPower, Provisioner

LIVE, REPLICAS, CONFIG, LOGS = "live", "replicas", "config", "logs"
JUST_S = 15
"""How long after an edit its workers are looked at anew, though none has moved yet."""

COPIED = "from"
_MODELS_OFFERED = 200
_P95 = 0.95


class PoolList(ListPage):
    noun = POOLS
    selector = staticmethod(list_pools)
    filters = PoolFilters
    table = PoolTable
    intro = "Workers of one kind that serve one model; figures of the last minutes"
    empty = Empty(
        "No pool yet",
        "A pool is a set of like workers that serve one model: engines started on a host here, or "
        "addresses of servers that run elsewhere. Routes send requests to pools.",
    )

    def make_table(self, rows: QuerySet[Any], now: Any) -> NounTable:
        return PoolTable(
            rows,
            scope=self.scope,
            now=now,
            order_by=self.request.GET.get(SORT, self.order),
            at_work=read_pools_now(self.scope, now),
        )


class PoolDetail(DetailPage):
    noun = POOLS
    selector = staticmethod(list_pools_with_routes)
    template_name = "console/pools/detail.html"
    tabs = (
        Tab(LIVE, "Live"),
        Tab(REPLICAS, "Replicas"),
        Tab(CONFIG, "Config"),
        Tab(LOGS, "Logs"),
        Tab(ACTIVITY, "Activity"),
    )

    def tabs_of(self, row: Pool) -> Sequence[Tab]:
        if self.scope.access.reads_organisation(self.scope.organisation.pk):
            return self.tabs
        # figures, logs and activity tell of everybody's traffic
        return tuple(tab for tab in self.tabs if tab.name in (REPLICAS, CONFIG))

    def get_row(self, pk: str) -> Any:
        row = super().get_row(pk)
        self.now = timezone.now()
        is_measured = self.request.GET.get(TAB) == REPLICAS
        self.at_work: PoolsNow = read_pool_now(self.scope, row, self.now, is_measured=is_measured)
        return row

    def state_of(self, row: Pool) -> State:
        return condition_state(self.at_work.condition(row))

    def actions_of(self, row: Pool) -> Sequence[Action]:
        if not self.may_write(POOLS.key):
            return ()
        *_, edit = super().actions_of(row)
        copy = f"{POOLS.create_url()}?{COPIED}={row.pk}"
        found = [Action("Duplicate", copy, icon="copy")]
        is_on = row.power != PoolPower.STOPPED
        if row.provisioner != Provisioner.STATIC and is_on:
            found.append(Action("Restart", _act_url(row, "restart"), icon="restart"))
        if row.power == PoolPower.RUNNING:
            found.append(Action("Drain", _act_url(row, "drain"), icon="pause"))
        elif is_on:
            found.append(Action("Put back", _act_url(row, "put-back"), icon="play"))
        if is_on:
            found.append(Action("Stop", _act_url(row, "stop"), "danger", "stop"))
        else:
            found.append(Action("Start", _act_url(row, "start"), icon="play"))
        return (*found, edit)

    def figures_of(self, row: Pool) -> Sequence[Fact]:
        condition = self.at_work.condition(row)
        ready, _, wanted = ready_words(condition).partition(" of ")
        what = (
            Fact("Replicas ready", ready, unit=f"of {wanted}"),
            Fact("Model", row.model.name, url=MODELS.detail_url(row.model_id)),
            Fact("Engine", row.backend, unit=row.provisioner),
        )
        names = route_names(row)
        if self.request.GET.get(TAB) != REPLICAS:
            # the live panels have the figures
            return (*what, Fact("Routes that send here", ", ".join(names[:2]) or "none"))
        summary = self.at_work.summary(row)
        rate = None if summary is None else summary.requests_per_s
        first, unit = milliseconds(None if summary is None else summary.first_token_ms.get(_P95))
        cost = self.at_work.cost_nanousd_per_hour(row)
        return (
            *what,
            Fact("Requests", UNKNOWN if rate is None else f"{rate:,.1f}", unit="/s"),
            Fact("First token p95", first, unit=unit),
            Fact("Cost", UNKNOWN if cost is None else about_dollars(cost), unit="/h"),
        )

    def extra(self, row: Pool, tab: str) -> Mapping[str, Any]:
        told = {"condition": self.at_work.condition(row), "is_static": _is_static(row)}
        if tab == REPLICAS:
            return told | self._replicas(row)
        if tab == CONFIG:
            return told | self._config(row)
        if tab == LOGS:
            return told | self._logs(row)
        return told

    def api_call(self, row: Pool, tab: str) -> str:
        if tab == LIVE:
            return live_call(self.request, self.scope, pool=row.pk)
        if tab == LOGS:
            asked = QueryDict(mutable=True)
            asked["worker"] = str(self._logs(row)["number"])
            path = reverse("api-pool-logs", args=[row.pk])
            return reading(self.request, self.scope, path, asked, place="")
        return super().api_call(row, tab)

    def _replicas(self, row: Pool) -> Mapping[str, Any]:
        is_ours = not _is_static(row)
        may_act = self.may_write(POOLS.key)
        may = is_ours and may_act
        workers = worker_rows(row, self.at_work, self.now)
        if workers is not None and may_act:
            workers = [replace(one, acts=acts_of(row, one.number)) for one in workers]
        return {
            "workers": workers,
            "panic": panic_words(row, self.at_work),
            "again_url": self.request.get_full_path() if self._is_moving(row, workers) else "",
            "has_acts": may_act and row.power != PoolPower.STOPPED,
            "has_logs": is_ours and self.scope.access.reads_organisation(row.organisation_id),
            "logs_url": f"{POOLS.detail_url(row.pk)}?tab={LOGS}&worker=",
            "more_url": _act_url(row, "add-replica") if may else "",
            "less_url": _act_url(row, "remove-replica") if may and row.replicas else "",
        }

    def _is_moving(self, row: Pool, workers: Sequence[WorkerRow] | None) -> bool:
        """Whether the tab is worth asking again: something was just asked for, or is under way."""
        is_new = (self.now - row.updated_at).total_seconds() < JUST_S
        return is_new or any(not is_settled(row, one) for one in workers or ())

    def _config(self, row: Pool) -> Mapping[str, Any]:
        may = self.may_write(POOLS.key)
        return {
            "settings": settings_of(row),
            "arguments": arguments_of(row),
            "acting_words": [(acting.value, ACTING_WORDS[acting]) for acting in Acting],
            "applied_pool": last_applied(row, self.at_work.fleet),
            "routes": route_names(row),
            "by_rule": names_by_rule(row),
            "delete_url": POOLS.delete_url(row.pk) if may else "",
        }

    def _logs(self, row: Pool) -> Mapping[str, Any]:
        rows = worker_rows(row, self.at_work, self.now) or ()
        asked = self.request.GET.get("worker", "0")
        numbers = [one.number for one in rows] or list(range(max(row.replicas, 1)))
        number = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 5 else 0
        return {
            "numbers": numbers,
            "number": number,
            "log_url": f"{reverse('pool-log', args=[row.pk])}?worker={number}",
            "logs_url": f"{POOLS.detail_url(row.pk)}?tab={LOGS}&worker=",
        }


class PoolWords(FormPage):
    """What reviews of pools say: how the change acts, on whom, and what is checked."""

    def words_of(self, row: Pool, changes: Mapping[str, Any], draft: Draft) -> str:
        ways = {acting_of(name, row.provisioner) for name in changes}
        gravest = next(
            (way for way in (Acting.RESTART, Acting.ROLLING) if way in ways), Acting.LIVE
        )
        return ACTING_WORDS[gravest]

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        if row is None:
            return Impact(checks=checks_of(draft, POOLS.key))
        told = impact_of(facts_of(row), changes, ())
        return Impact(
            reach=(*(Reach("Workers", words) for words in told), *_reach_of(row)),
            checks=checks_of(draft, POOLS.key),
        )


class PoolCreate(CreatePage):
    noun = POOLS
    form_class = PoolForm
    template_name = "console/pools/form.html"

    def initial(self) -> dict[str, Any]:
        copied = self.request.GET.get(COPIED, "")
        if not copied:
            return super().initial()
        row = get_object_or_404(self._own(), pk=copied.replace("\0", ""))
        found = PoolForm.initial_of(row)
        return {**found, "name": f"{row.name}-copy"[:64], "provisioner": row.provisioner}

    def _own(self) -> QuerySet[Pool]:
        return list_pools(self.scope.access).filter(organisation_id=self.scope.organisation.pk)

    def carry_out(self, actor: Actor, values: dict[str, Any]) -> Pool:
        return create_pool(actor, organisation=self.scope.organisation, **values)

    def render(
        self, context: dict[str, Any], *, template: str | None = None, status: int = 200
    ) -> HttpResponse:
        shared = {"models": _model_names(self), "is_copy": COPIED in self.request.GET}
        return super().render({**shared, **context}, template=template, status=status)


class PoolEdit(PoolWords, EditPage):
    noun = POOLS
    selector = staticmethod(list_pools_with_routes)
    form_class = PoolForm
    template_name = "console/pools/form.html"

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        return update_pool(
            actor, pool_id=row.pk, changes=changes, expected_version=expected_version
        )

    def restored_from(self, before: Mapping[str, Any]) -> dict[str, Any]:
        known = {*PoolForm.base_fields, "engine_arguments"} - {"credential"}
        return {name: value for name, value in before.items() if name in known}

    def render(
        self, context: dict[str, Any], *, template: str | None = None, status: int = 200
    ) -> HttpResponse:
        return super().render(
            {"models": _model_names(self), **context}, template=template, status=status
        )


_POWERS: Mapping[str, PoolPower] = {
    "start": PoolPower.RUNNING,
    "put-back": PoolPower.RUNNING,
    "drain": PoolPower.DRAINED,
    "stop": PoolPower.STOPPED,
}


class PoolAct(PoolWords, ActPage):
    """Start, stop, drain, restart, one replica more or less."""

    noun = POOLS
    selector = staticmethod(list_pools_with_routes)
    form_class = PoolForm
    verbs: ClassVar[Mapping[str, str]] = {
        "start": "Start",
        "stop": "Stop",
        "drain": "Drain",
        "put-back": "Put back",
        "restart": "Restart",
        "add-replica": "Add a replica",
        "remove-replica": "Remove a replica",
    }
    titles: ClassVar[Mapping[str, str]] = {
        "add-replica": "Add a replica to",
        "remove-replica": "Remove a replica from",
    }

    def values_of(self, row: Pool) -> Mapping[str, Any]:
        power = _POWERS.get(self.act)
        if power is not None:
            if row.power == power:
                raise Conflict(f"The pool is {power.value} already.")
            if row.power == PoolPower.STOPPED and self.act != "start":
                raise Conflict("The pool is stopped; start it first.")
            return {"power": power.value}
        if _is_static(row):
            raise Conflict("The workers of a static pool are started elsewhere.")
        if self.act == "restart":
            return {"restart_generation": row.restart_generation + 1}
        wanted = row.replicas + (1 if self.act == "add-replica" else -1)
        if wanted < 0:
            raise Conflict("The pool has no replica left to remove.")
        return {"replicas": wanted}

    def is_act_risky(self, row: Pool, changes: Mapping[str, Any]) -> bool:
        return self.act in ("stop", "drain", "restart", "remove-replica")

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        return update_pool(
            actor, pool_id=row.pk, changes=changes, expected_version=expected_version
        )


class PoolDelete(DeletePage):
    noun = POOLS
    selector = staticmethod(list_pools_with_routes)

    def carry_out(self, actor: Actor, row: Any, expected_version: int | None) -> object:
        return delete_pool(actor, pool_id=row.pk, expected_version=expected_version)

    def values_of(self, row: Pool) -> Mapping[str, Any]:
        told = {"name": row.name, "model": row.model.name, "engine": row.backend}
        if _is_static(row):
            return told | {"addresses": list(row.addresses), "token": credential_words(row)}
        return told | {"replicas": row.replicas, "weights": row.model_source}

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        gone = "its addresses are no longer used"
        if not _is_static(row):
            gone = f"{count(row.replicas)} of them end, each after its running requests"
        reach = (Reach("Workers", gone), *_reach_of(row))
        return Impact(reach=reach, checks=checks_of(draft, POOLS.key))


def act_views() -> Mapping[str, Any]:
    """The view of each act, by its name in the address."""
    return {name: PoolAct.as_view(act=name) for name in PoolAct.verbs}


def _act_url(row: Pool, act: str) -> str:
    return reverse(f"pool-{act}", args=[row.pk])


def _is_static(row: Pool) -> bool:
    return bool(row.provisioner == Provisioner.STATIC)


def _reach_of(row: Pool) -> Sequence[Reach]:
    return (Reach("Routes", ", ".join(route_names(row)) or "none sends here"),)


def _model_names(page: FormPage) -> Sequence[str]:
    own = list_models(page.scope.access).filter(organisation_id=page.scope.organisation.pk)
    return list(own.order_by("name").values_list("name", flat=True)[:_MODELS_OFFERED])

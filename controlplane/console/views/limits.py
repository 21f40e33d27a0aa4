"""The pages of limits."""

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.console.creating import CreatePage
from controlplane.console.deleting import DeletePage
from controlplane.console.details import DetailPage, Fact, State
from controlplane.console.editing import EditPage
from controlplane.console.forms.limits import LimitForm
from controlplane.console.limit_impact import impact_of_limit
from controlplane.console.lists import Empty, ListPage, NounTable
from controlplane.console.nouns import KEYS, LIMITS, MODELS, PROJECTS, ROUTES, TEAMS, Noun
from controlplane.console.reviews import Check, Impact, checks_of
from controlplane.console.tables.limits import LimitTable, state_of_limit
from controlplane.decisions.limits import amount_words, enforcement_words, limit_words
from controlplane.decisions.subjects import subject_words
from controlplane.models import Limit
from controlplane.selectors.filters import LimitFilters
from controlplane.selectors.limits import list_limits
from controlplane.selectors.subjects import list_subject_names
from controlplane.services.actors import Actor
from controlplane.services.drafts import Draft
from controlplane.services.limits import create_limit, delete_limit, update_limit
from inference.contract.kinds import LimitSubject

_NOUNS: Mapping[str, Noun] = {
    LimitSubject.TEAM.value: TEAMS,
    LimitSubject.PROJECT.value: PROJECTS,
    LimitSubject.KEY.value: KEYS,
    LimitSubject.MODEL.value: MODELS,
    LimitSubject.ROUTE.value: ROUTES,
}


class LimitList(ListPage):
    noun = LIMITS
    selector = staticmethod(list_limits)
    filters = LimitFilters
    table = LimitTable
    hidden_filters = ListPage.hidden_filters | {"name", "subject_id", "enforcement"}
    intro = "How much a subject may have in a window or at once; what goes beyond is refused"
    empty = Empty(
        "Nothing is limited",
        "A limit counts requests, tokens or what runs at once, for the organisation, one team, "
        "project, key, end user, model or route, or for each of them apart.",
    )

    def extra(self, table: NounTable) -> dict[str, Any]:
        assert isinstance(table, LimitTable)
        shown = [row.record for row in table.paginated_rows]
        table.names = list_subject_names(self.scope.access, shown)
        return {}


class LimitDetail(DetailPage):
    noun = LIMITS
    selector = staticmethod(list_limits)
    is_name_mono = False

    def state_of(self, row: Limit) -> State:
        return state_of_limit(row)

    def facts_of(self, row: Any) -> Sequence[Fact]:
        noun = _NOUNS.get(row.subject)
        url = "" if noun is None or row.subject_id is None else noun.detail_url(row.subject_id)
        same = ()
        if row.duplicates:
            words = ", ".join(row.duplicates)
            same = (Fact("Count the same", words, unit="the least amount decides"),)
        return (
            Fact("Allows", amount_words(row.unit, row.window, row.amount)),
            Fact("For", _about(self, row), url=url),
            *same,
            Fact("Held", enforcement_words(row.enforcement, row.unit)),
            Fact("Id", row.pk, is_mono=True),
            Fact("Version", str(row.version)),
        )


class LimitCreate(CreatePage):
    noun = LIMITS
    form_class = LimitForm
    template_name = "console/limits/form.html"
    is_reviewed = True

    def carry_out(self, actor: Actor, values: dict[str, Any]) -> Limit:
        return create_limit(actor, organisation=self.scope.organisation, **values)

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        return impact_of_limit(self.scope, changes, draft)


class LimitEdit(EditPage):
    noun = LIMITS
    selector = staticmethod(list_limits)
    form_class = LimitForm
    template_name = "console/limits/form.html"

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        return update_limit(
            actor, limit_id=row.pk, changes=changes, expected_version=expected_version
        )

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        values = {**LimitForm.initial_of(row), **changes}
        return impact_of_limit(self.scope, values, draft, pk=row.pk)


class LimitDelete(DeletePage):
    noun = LIMITS
    selector = staticmethod(list_limits)

    def carry_out(self, actor: Actor, row: Any, expected_version: int | None) -> object:
        return delete_limit(actor, limit_id=row.pk, expected_version=expected_version)

    def values_of(self, row: Limit) -> Mapping[str, Any]:
        words = limit_words(row.unit, row.window, row.amount, _about(self, row))
        return {"name": row.name, "allows": words}

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        told = Check("warn", f"Then nothing holds {_about(self, row)} to it.")
        if row.duplicates:
            told = Check("info", f"{', '.join(row.duplicates)} counts the same, and stays.")
        return Impact(checks=(told, *checks_of(draft, LIMITS.key)))


def _about(page: DetailPage | DeletePage, row: Limit) -> str:
    names = list_subject_names(page.scope.access, (row,))
    return subject_words(row.subject, row.subject_id, names.get(row.subject_id or ""))

"""Versions of the configuration: who runs what, how they differ, and the way back."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse

from controlplane.bridge.vitals import read_propagation
from controlplane.console.api_calls import changing, reading
from controlplane.console.carrying import STEP, Base
from controlplane.console.diffs import Line
from controlplane.console.form_pages import NO_REASON, SAVE, FormPage
from controlplane.console.lists import Empty, ListPage, NounTable
from controlplane.console.nouns import SNAPSHOTS
from controlplane.console.pages import Action, Crumb, Page
from controlplane.console.propagation import APPLIED
from controlplane.console.restore_impact import how_a_restore_acts, reach_of_restore
from controlplane.console.reviews import Impact, Review, checks_of
from controlplane.console.tables.snapshots import SnapshotTable
from controlplane.console.versions import blocks_of, blocks_of_draft, ids_in
from controlplane.console.views.audit import require_audit
from controlplane.decisions.versions import compare
from controlplane.errors import Conflict, Invalid, VersionMismatch
from controlplane.models import ConfigRevision
from controlplane.selectors.filters import SnapshotFilters
from controlplane.selectors.names import list_names
from controlplane.selectors.pools import list_pools
from controlplane.selectors.revisions import (
    get_neighbours,
    get_records_before,
    list_changed_nouns,
)
from controlplane.selectors.snapshots import (
    get_newest_revision,
    get_records,
    get_revision,
    list_revisions,
)
from controlplane.services import drafts
from controlplane.services.actors import Actor
from controlplane.services.restores import KINDS, restore

AGAINST = "against"
CHOSEN = "chosen"
"""Sent by a page whose nouns were chosen, so that none is none and not all."""

_LARGEST = 18


class SnapshotList(ListPage):
    noun = SNAPSHOTS
    selector = staticmethod(list_revisions)
    filters = SnapshotFilters
    table = SnapshotTable
    order = "-version"
    api_place = "organisation_id"
    api_orders: ClassVar[Mapping[str, str]] = {"version": "id"}
    is_created_here = False
    template_name = "console/snapshots/list.html"
    intro = "Each edit that gateways read makes a version; they run on one within a second"
    empty = Empty(
        "No version of this organisation's yet",
        "The first change of a model, price, pool, route or key makes one.",
    )

    def get(self, request: HttpRequest) -> HttpResponse:
        require_audit(self)
        return super().get(request)

    def extra(self, table: NounTable) -> dict[str, Any]:
        assert isinstance(table, SnapshotTable)
        table.tell(list_changed_nouns(row.record for row in table.paginated_rows))
        return {"propagation": read_propagation(), "newest": get_newest_revision()}


class SnapshotDetail(Page):
    """One version: what it changed, or how it differs from another."""

    template_name = "console/snapshots/detail.html"

    def crumbs(self) -> Sequence[Crumb]:
        first = (Crumb(SNAPSHOTS.group), Crumb(SNAPSHOTS.title, SNAPSHOTS.list_url()))
        return (*first, Crumb(self.title))

    def get(self, request: HttpRequest, version: int) -> HttpResponse:
        require_audit(self)
        self.title = f"Version {version}"
        revision = get_revision(self.scope.access, version)
        revision = self.found(list_revisions(self.scope.access), str(revision.pk))
        organisation_id = self.scope.organisation.pk
        before, after = get_neighbours(self.scope.access, revision)
        other = self._against(revision)
        theirs = get_records_before(revision, organisation_id)
        if other is not None:
            theirs = get_records(other, organisation_id)
        own = get_records(revision, organisation_id)
        is_later = other is not None and other.pk > revision.pk
        differences = compare(own, theirs) if is_later else compare(theirs, own)
        context: dict[str, Any] = {
            "title": self.title,
            "revision": revision,
            "other": other,
            "is_later": is_later,
            "before": before,
            "after": after,
            "blocks": blocks_of(differences, list_names(self.scope.access, ids_in(differences))),
            "actions": self._actions(revision),
            "api": self._api(revision, other, before),
        }
        return self.render(context)

    def _against(self, revision: ConfigRevision) -> ConfigRevision | None:
        asked = self.request.GET.get(AGAINST, "").strip().removeprefix("v")
        if not asked:
            return None
        if not (asked.isascii() and asked.isdigit() and len(asked) <= _LARGEST):
            raise Invalid.field(AGAINST, "Give the number of a version.")
        return get_revision(self.scope.access, int(asked))

    def _actions(self, revision: ConfigRevision) -> Sequence[Action]:
        newest = get_newest_revision()
        is_current = newest is not None and newest.pk == revision.pk
        if is_current or not any(self.may_write(noun) for noun in KINDS):
            return ()
        url = reverse("snapshot-restore", args=[revision.version])
        return (Action("Roll back to this version", url),)

    def _api(
        self,
        revision: ConfigRevision,
        other: ConfigRevision | None,
        before: ConfigRevision | None,
    ) -> str:
        """The same difference; of the first version, which has none before it, its records."""
        compared = other or before
        if compared is None:
            path = reverse("api-snapshot-detail", args=[revision.version])
            return reading(self.request, self.scope, path)
        older, newer = sorted((revision, compared), key=lambda one: one.pk)
        query = QueryDict(mutable=True)
        query["to"] = str(newer.version)
        path = reverse("api-snapshot-diff", args=[older.version])
        return reading(self.request, self.scope, path, query)


NOTHING = "Nothing differs in what is chosen."


class SnapshotRestore(FormPage):
    """Roll back: a review of what comes, goes and changes, then a save with its reason."""

    noun = SNAPSHOTS
    review_template = "console/snapshots/restore.html"

    def own_crumbs(self) -> Sequence[Crumb]:
        url = reverse("snapshot", args=[self.revision.version])
        return (Crumb(f"Version {self.revision.version}", url), Crumb("Roll back"))

    def get(self, request: HttpRequest, version: int) -> HttpResponse:
        """Show what putting back the chosen nouns would do."""
        self._begin(version)
        return self._reviewed(self._chosen(request.GET), "")

    def post(self, request: HttpRequest, version: int) -> HttpResponse:
        """Put them back, if the configuration is still the one that was reviewed."""
        self._begin(version)
        base = Base.read(request.POST)
        nouns = self._chosen(request.POST)
        if request.POST.get(STEP) != SAVE:
            return self._reviewed(nouns, "")
        if not self.reason():
            return self._reviewed(nouns, NO_REASON)
        try:
            restored = self._restore(self.actor(self.reason()), nouns, base.version)
        except VersionMismatch:
            return self._reviewed(nouns, "The configuration moved meanwhile. Look again.", 412)
        except (Invalid, Conflict) as error:
            return self._reviewed(nouns, error.detail)
        url = f"{SNAPSHOTS.list_url()}?{APPLIED}={restored.revision.version}"
        return HttpResponseRedirect(url)

    def _begin(self, version: int) -> None:
        require_audit(self)
        found = get_revision(self.scope.access, version)
        self.revision = self.found(list_revisions(self.scope.access), str(found.pk))
        self.writable = [noun for noun in KINDS if self.may_write(noun)]
        if not self.writable:
            self.require_write("routes")

    def _chosen(self, given: QueryDict) -> Sequence[str]:
        asked = given.getlist("noun")
        if CHOSEN not in given and not asked:
            return self.writable
        return [noun for noun in self.writable if noun in asked]

    def _restore(
        self, actor: Actor, nouns: Sequence[str], expected_version: int | None = None
    ) -> Any:
        return restore(
            actor,
            organisation=self.scope.organisation,
            version=self.revision.version,
            nouns=nouns,
            reason=actor.reason,
            expected_version=expected_version,
        )

    def _reviewed(self, nouns: Sequence[str], problem: str, status: int = 200) -> HttpResponse:
        draft = drafts.draft(lambda: self._restore(self.actor("draft"), nouns))
        ids = {one.object_id for one in draft.changes}
        for one in draft.changes:
            ids |= _pools_of(one.before) | _pools_of(one.after)
        names = list_names(self.scope.access, ids)
        blocks = blocks_of_draft(draft, names)
        pools = list_pools(self.scope.access).in_bulk(
            [one.object_id for one in draft.changes if one.noun == "pools"]
        )
        version = self.revision.version
        review = Review(
            title=f"Roll back to version {version}",
            words=how_a_restore_acts(draft, pools) if blocks else NOTHING,
            lines=[line for block in blocks for line in _labelled(block.title, block.lines)],
            impact=Impact(
                reach=reach_of_restore(draft, pools, names), checks=checks_of_restore(draft)
            ),
            is_risky=True,
            verb=f"Roll back to version {version}",
            before_label="Now",
            after_label=f"As in v{version}",
        )
        path = reverse("api-snapshot-restore", args=[version])
        document = {"nouns": list(nouns), "reason": self.reason() or "REASON"}
        context = {
            "title": review.title,
            "cancel": reverse("snapshot", args=[version]),
            "writable": self.writable,
            "chosen": nouns,
            "blocks": blocks,
            "is_moved": status == 412,
            "api": changing(self.request, "POST", path, document, version=draft.version),
        }
        base = Base(draft.version, {})
        response = self.show_review(review, None, base, context, problem)
        response.status_code = status
        return response


def checks_of_restore(draft: drafts.Draft) -> Sequence[Any]:
    """What the draft proved; that other rows change with it is the point, and no warning."""
    if draft.refused is not None:
        return checks_of(draft, "")
    return [one for one in checks_of(draft, "") if one.tone != "warn"]


def _labelled(title: str, lines: Sequence[Line]) -> Sequence[Line]:
    return [Line(f"{title}, {line.label.lower()}", line.before, line.after) for line in lines]


def _pools_of(side: Mapping[str, Any] | None) -> set[str]:
    return {one["pool"] for one in (side or {}).get("targets") or [] if "pool" in one}

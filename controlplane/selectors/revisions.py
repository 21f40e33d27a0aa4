"""Versions as the console asks for them: by number, by the request that made one, by what moved."""

from collections.abc import Iterable, Mapping, Sequence

from controlplane.models import ConfigRevision
from controlplane.selectors.access import Access
from controlplane.selectors.snapshots import Records, get_records, list_revisions
from inference.contract.codec import noun_of


def get_revision_at(version: int) -> ConfigRevision | None:
    """The newest version of this number, whoever made it, without its contents."""
    rows = ConfigRevision.objects.defer("manifest").filter(version=version)
    return rows.order_by("-id").first()


def get_revision_of_request(access: Access, request_id: str) -> ConfigRevision | None:
    """The version that an edit under this request id made, or None if it made none.

    Callers choose their request ids, so only versions of organisations the caller has any role in
    are looked at.
    """
    rows = access.visible(ConfigRevision.objects.defer("manifest"))
    return rows.filter(request_id=request_id).order_by("-id").first()


def get_neighbours(
    access: Access, revision: ConfigRevision
) -> tuple[ConfigRevision | None, ConfigRevision | None]:
    """The versions before and after this one that the same organisation's edits made."""
    rows = list_revisions(access).filter(organisation_id=revision.organisation_id)
    before = rows.filter(pk__lt=revision.pk).order_by("-id").first()
    after = rows.filter(pk__gt=revision.pk).order_by("id").first()
    return before, after


def get_records_before(revision: ConfigRevision, organisation_id: str) -> Records:
    """What the organisation had in the version just before, whoever's edit made that."""
    rows = ConfigRevision.objects.filter(pk__lt=revision.pk)
    before = rows.order_by("-id").first()
    return {} if before is None else get_records(before, organisation_id)


def list_changed_nouns(revisions: Iterable[ConfigRevision]) -> Mapping[int, Sequence[str]]:
    """By version's key: the nouns whose sections differ from the version before; by one query.

    One whose version before is kept no longer is absent.
    """
    wanted = {(one.lineage, one.version): one.pk for one in revisions}
    numbers = {number for _, version in wanted for number in (version - 1, version)}
    lineages = {lineage for lineage, _ in wanted}
    rows = ConfigRevision.objects.filter(lineage__in=lineages, version__in=numbers)
    manifests = {(one.lineage, one.version): one.manifest for one in rows}
    found = {}
    for (lineage, version), pk in wanted.items():
        if version > 1 and (lineage, version - 1) not in manifests:
            continue
        new = manifests.get((lineage, version), {})
        old = manifests.get((lineage, version - 1), {})
        names = {name for name in {*old, *new} if old.get(name) != new.get(name)}
        found[pk] = sorted({noun_of(name) for name in names})
    return found

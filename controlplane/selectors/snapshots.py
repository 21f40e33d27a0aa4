"""Versions of the configuration as a caller may see them, and what they held."""

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet

from controlplane.errors import Conflict, NotFound
from controlplane.models import ConfigRevision, ConfigSection
from controlplane.selectors.access import Access
from inference.contract import codec
from inference.contract.snapshot import ConfigSnapshot, GatewayRecord, Manifest

Records = Mapping[str, Mapping[str, Any]]
"""Records of a version by noun and id."""


def list_revisions(access: Access) -> QuerySet[ConfigRevision]:
    """Versions that edits of organisations the caller reads all of made; administrators see all."""
    return access.visible_organisation_wide(ConfigRevision.objects.defer("manifest"))


def get_newest_revision() -> ConfigRevision | None:
    """The version that is published, or None before the first; whoever made it."""
    return ConfigRevision.objects.order_by("-id").first()


def get_revision(access: Access, version: int) -> ConfigRevision:
    """The caller's version of this number, of whatever lineage, or NotFound."""
    return _numbered(access.visible_organisation_wide(ConfigRevision.objects.all()), version)


def get_revision_of(version: int) -> ConfigRevision:
    """The version of this number, whoever made it, or NotFound. For services."""
    return _numbered(ConfigRevision.objects.all(), version)


def get_records(revision: ConfigRevision, organisation_id: str) -> Records:
    """What a version held of one organisation, by noun and id; secrets as sealed as they were.

    What is wanted of gateways is everybody's, for all organisations share them.
    Raises Conflict if its contents are kept no longer.
    """
    digests = revision.manifest
    sections = ConfigSection.objects.filter(digest__in=set(digests.values()))
    contents = {section.digest: bytes(section.content) for section in sections}
    if not contents.keys() >= set(digests.values()):
        raise Conflict("The contents of this version are kept no longer.")
    records: dict[str, dict[str, Any]] = {}
    for name, digest in sorted(digests.items()):
        found = records.setdefault(codec.noun_of(name), {})
        for record in codec.decode_section(name, contents[digest]):
            if _is_of(record, organisation_id):
                found[record.id] = record
    return records


def get_configuration(revision: ConfigRevision) -> ConfigSnapshot:
    """The configuration of a version, as gateways hold it; for all organisations.

    Raises Conflict if its contents are kept no longer.
    """
    digests = revision.manifest
    sections = ConfigSection.objects.filter(digest__in=set(digests.values()))
    contents = {section.digest: bytes(section.content) for section in sections}
    if not contents.keys() >= set(digests.values()):
        raise Conflict("The contents of this version are kept no longer.")
    at = revision.created_at.timestamp()
    manifest = Manifest(revision.lineage, revision.version, digests, at)
    records = {
        name: codec.index_section(name, codec.decode_section(name, contents[digest]))
        for name, digest in digests.items()
    }
    return codec.assemble(manifest, records)


def _is_of(record: Any, organisation_id: str) -> bool:
    if isinstance(record, GatewayRecord):
        return True
    return bool(getattr(record, "organisation_id", record.id) == organisation_id)


def _numbered(revisions: QuerySet[ConfigRevision], version: int) -> ConfigRevision:
    # numbers go on counting when a lineage begins, so the newest is the only one but by accident
    revision = revisions.filter(version=version).order_by("-id").first()
    if revision is None:
        raise NotFound("There is no such version.")
    return revision

"""Versions of the configuration as a caller may see them, and what they held."""

from collections.abc import Collection, Mapping
from typing import Any

from django.db.models import QuerySet

from controlplane.decisions.header_rules import LookedAt
from controlplane.errors import Conflict, NotFound
from controlplane.models import ConfigRevision, ConfigSection
from controlplane.selectors.access import Access
from inference.contract import codec
from inference.contract.snapshot import ConfigSnapshot, GatewayRecord, Manifest
from inference.decisions.rules import headers_of

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
    return put_together(revision, get_sections(revision.manifest))


def get_sections(digests: Mapping[str, str]) -> dict[str, Mapping[Any, Any]]:
    """Sections by name, indexed as a snapshot holds them, of these digests by name.

    Raises Conflict if one of them is kept no longer.
    """
    rows = ConfigSection.objects.filter(digest__in=set(digests.values()))
    contents = {row.digest: bytes(row.content) for row in rows}
    if not contents.keys() >= set(digests.values()):
        raise Conflict("The contents of this version are kept no longer.")
    return {
        name: codec.index_section(name, codec.decode_section(name, contents[digest]))
        for name, digest in digests.items()
    }


def list_headers_looked_at(versions: Collection[tuple[str, int]]) -> LookedAt:
    """The headers that rules of routes looked at in these versions, by lineage and number.

    Each content of the section is decoded once, however many versions had it.
    """
    rows = ConfigRevision.objects.filter(
        lineage__in={lineage for lineage, _ in versions},
        version__in={version for _, version in versions},
    ).values_list("lineage", "version", "manifest__routes")
    digests = {(lineage, version): digest for lineage, version, digest in rows}
    wanted = {digest for place, digest in digests.items() if place in versions}
    headers = {
        section.digest: _headers_in(bytes(section.content))
        for section in ConfigSection.objects.filter(digest__in=wanted).iterator(chunk_size=8)
    }
    return {
        place: headers[digest]
        for place, digest in digests.items()
        if place in versions and digest in headers
    }


def _headers_in(section: bytes) -> Mapping[str, frozenset[str]]:
    routes = codec.decode_section("routes", section)
    return {route.id: found for route in routes if (found := headers_of(route))}


def put_together(
    revision: ConfigRevision, sections: Mapping[str, Mapping[Any, Any]]
) -> ConfigSnapshot:
    """The snapshot of a version from all of its sections."""
    at = revision.created_at.timestamp()
    manifest = Manifest(revision.lineage, revision.version, revision.manifest, at)
    return codec.assemble(manifest, sections)


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

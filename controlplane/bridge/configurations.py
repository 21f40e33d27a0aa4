"""The configuration that gateways are given, decoded once a process for all who ask for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.errors import Conflict
from controlplane.models import ConfigRevision
from controlplane.selectors.snapshots import get_newest_revision, get_sections, put_together
from inference.contract.snapshot import ConfigSnapshot

Sections = Mapping[str, Mapping[Any, Any]]


@dataclass(frozen=True, slots=True)
class _Decoded:
    """One version: what it is made of, and the whole."""

    revision: ConfigRevision
    sections: Sections
    snapshot: ConfigSnapshot

    def is_of(self, revision: ConfigRevision) -> bool:
        """Whether it is this very version; a number may come again after a restored back-up."""
        own = self.revision
        numbers = (own.lineage, own.version) == (revision.lineage, revision.version)
        return numbers and own.manifest == revision.manifest

    def unchanged(self, digests: Mapping[str, str]) -> dict[str, Mapping[Any, Any]]:
        """Its sections that another version has as well."""
        own = self.revision.manifest
        return {name: self.sections[name] for name, one in digests.items() if own.get(name) == one}


class DecodedConfiguration:
    """Holds one decoded version, the one asked for last; of the next it decodes what differs.

    Sections and snapshots are never changed, so any number of threads may read them. Two that find
    a new version at once decode it twice and hold one of the two.
    """

    def __init__(self) -> None:
        self._held: _Decoded | None = None

    def read(self, revision: ConfigRevision) -> ConfigSnapshot:
        """The snapshot of a version; raises Conflict if its contents are kept no longer."""
        held = self._held
        if held is not None and held.is_of(revision):
            return held.snapshot
        digests = revision.manifest
        sections = {} if held is None else held.unchanged(digests)
        sections |= get_sections({name: digests[name] for name in digests.keys() - sections})
        found = _Decoded(revision, sections, put_together(revision, sections))
        self._held = found
        return found.snapshot


_live = DecodedConfiguration()


def newest_revision() -> ConfigRevision:
    """The version that gateways are given, or Conflict."""
    revision = get_newest_revision()
    if revision is None:
        raise Conflict("There is no configuration yet.")
    return revision


def live_configuration() -> ConfigSnapshot:
    """What gateways are given now, or Conflict."""
    return _live.read(newest_revision())

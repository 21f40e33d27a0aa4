"""Reading what was staged, as a gateway would."""

from controlplane.models import ConfigRevision, ConfigSection
from inference.contract import codec
from inference.contract.snapshot import ConfigSnapshot, Manifest


def newest_revision() -> ConfigRevision:
    """The newest version there is."""
    revision = ConfigRevision.objects.order_by("-id").first()
    assert revision is not None
    return revision


def staged_snapshot(revision: ConfigRevision | None = None) -> ConfigSnapshot:
    """A version as a snapshot, read back from its stored bytes."""
    row = revision or newest_revision()
    sections = {
        name: codec.index_section(
            name, codec.decode_section(name, bytes(ConfigSection.objects.get(pk=digest).content))
        )
        for name, digest in row.manifest.items()
    }
    return codec.assemble(Manifest(row.lineage, row.version, row.manifest, 0.0), sections)

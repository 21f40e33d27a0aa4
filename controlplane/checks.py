"""System checks: what can be known to be wrong before anything is served."""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as CheckWarning
from django.db import DatabaseError

from controlplane.environment import KEY_BYTES
from controlplane.models import KeyDigest, Pool
from inference.contract.sealing import SealError, decrypt

_POSTGRESQL = "django.db.backends.postgresql"


@register(Tags.security)
def check_secrets(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    """The data key and the peppers are there and as long as they must be."""
    found: list[CheckMessage] = []
    if len(settings.HEADWORKS.data_key_bytes) != KEY_BYTES:
        found.append(Error("HEADWORKS_DATA_KEY must hold 32 bytes.", id="headworks.E001"))
    peppers = settings.HEADWORKS.peppers
    if not peppers or any(len(pepper) != KEY_BYTES for pepper in peppers.values()):
        found.append(Error("HEADWORKS_KEY_PEPPERS must hold 32 bytes each.", id="headworks.E002"))
    if settings.HEADWORKS.data_key_bytes in peppers.values():
        message = "HEADWORKS_KEY_PEPPERS must not repeat HEADWORKS_DATA_KEY."
        found.append(Error(message, id="headworks.E003"))
    return found


@register(Tags.compatibility)
def check_engine(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    """PostgreSQL it is: partitions, advisory locks and triggers are used throughout."""
    if settings.DATABASES["default"]["ENGINE"] != _POSTGRESQL:
        return [Error("The database must be PostgreSQL.", id="headworks.E004")]
    return []


@register(Tags.database)
def check_stored_secrets(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **options: Any
) -> list[CheckMessage]:
    """What is stored can be opened with this data key, and was digested with peppers we have."""
    if not databases:
        return []
    try:
        sealed = Pool.objects.filter(credential__isnull=False).values_list("credential", flat=True)
        sample = sealed.first()
        versions = set(KeyDigest.objects.values_list("pepper_version", flat=True).distinct())
    except DatabaseError:
        # not migrated, or not there: other checks and the status page say so
        return []
    found: list[CheckMessage] = []
    if sample is not None and not _opens(sample):
        message = "HEADWORKS_DATA_KEY doesn't open the stored credentials."
        found.append(Error(message, id="headworks.E005"))
    missing = sorted(versions - set(settings.HEADWORKS.peppers))
    if missing:
        message = f"HEADWORKS_KEY_PEPPERS lacks versions {missing}; their keys are refused."
        found.append(CheckWarning(message, id="headworks.W001"))
    return found


def _opens(sealed: str) -> bool:
    try:
        decrypt(settings.HEADWORKS.data_key_bytes, sealed)
    except SealError:
        return False
    return True

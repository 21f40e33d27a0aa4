"""What an edit carries from page to page in hidden fields, for the server keeps nothing of it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core import signing
from django.core.exceptions import BadRequest
from django.http import QueryDict

from inference.contract.sealing import SealError, decrypt, encrypt

STEP, REASON, CONFIRM, BASE = "step", "reason", "confirm", "base"
_SEALED = "sealed-"
_OWN = frozenset((STEP, REASON, CONFIRM, BASE, "csrfmiddlewaretoken"))
_SALT = "headworks.console.editing"
_MAX_AGE_S = 24 * 3600


@dataclass(frozen=True, slots=True)
class Base:
    """What the reader started from: the row's version and values, as plain as in JSON.

    `only` names the fields to be changed where the reader has chosen to put his on top of
    somebody else's change; None: whatever differs.
    """

    version: int | None
    values: dict[str, Any]
    only: tuple[str, ...] | None = None

    def signed(self) -> str:
        document = {"version": self.version, "values": self.values, "only": self.only}
        return signing.dumps(document, salt=_SALT, compress=True)

    @classmethod
    def read(cls, data: QueryDict) -> "Base":
        """The base of a submitted page; BadRequest if it isn't one of ours or is a day old."""
        try:
            found = signing.loads(data.get(BASE, ""), salt=_SALT, max_age=_MAX_AGE_S)
        except signing.BadSignature as error:
            raise BadRequest("This page is too old. Open the form again.") from error
        only = found["only"]
        return cls(found["version"], found["values"], None if only is None else tuple(only))


def carried(data: QueryDict, secrets: Collection[str]) -> Sequence[tuple[str, str]]:
    """The submitted fields as hidden ones; secrets are encrypted."""
    key = settings.HEADWORKS.data_key_bytes
    return [
        (f"{_SEALED}{name}", encrypt(key, value)) if name in secrets else (name, value)
        for name, values in data.lists()
        if name not in _OWN and not name.startswith(_SEALED)
        for value in values
        if not (name in secrets and not value)
    ]


def opened(data: QueryDict, secrets: Collection[str]) -> QueryDict:
    """Submitted data with its carried secrets in place; a newly given one wins."""
    key = settings.HEADWORKS.data_key_bytes
    found = data.copy()
    for name in secrets:
        sealed = found.get(f"{_SEALED}{name}")
        if sealed and not found.get(name):
            try:
                found[name] = decrypt(key, sealed)
            except SealError as error:
                raise BadRequest("This page is not one of ours.") from error
    return found

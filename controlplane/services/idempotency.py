"""Exactly once: the answer to an Idempotency-Key, kept in the transaction of the write itself.

A process that dies after the commit has kept the answer; one that dies before has done nothing. A
second call of the same key waits for the first one's transaction, by the unique index.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection
from django.utils import timezone

from controlplane.errors import KeyReused
from controlplane.models import KeptAnswer
from inference.contract.sealing import decrypt, encrypt

KEPT_FOR = timedelta(hours=24)
MAX_KEY_LENGTH = 255

_CLAIM = """
INSERT INTO controlplane_keptanswer (caller, key, fingerprint, answer, created_at)
VALUES (%s, %s, %s, '', %s) ON CONFLICT (caller, key) DO NOTHING RETURNING id
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call was answered: its status, the headers worth repeating, and the JSON body.

    `asked` is what the caller had to be allowed for it, to be asked again before it is repeated.
    """

    status: int
    headers: Mapping[str, str]
    data: Any
    asked: Sequence[tuple[str, str, Mapping[str, str]]] = ()


def claim_or_recall(*, caller: str, key: str, fingerprint: str) -> int | Answer:
    """Claim the key for this transaction and return the claim, or return the answer it was given.

    Waits while another transaction holds the claim. Raises KeyReused if the key came with another
    request before.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("a key is claimed inside the transaction of its write")
    now = timezone.now()
    KeptAnswer.objects.filter(caller=caller, key=key, created_at__lte=now - KEPT_FOR).delete()
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, [caller, key, fingerprint, now])
        claimed = cursor.fetchone()
    if claimed is not None:
        return int(claimed[0])
    kept = KeptAnswer.objects.get(caller=caller, key=key)
    if kept.fingerprint != fingerprint:
        raise KeyReused
    document = json.loads(decrypt(settings.HEADWORKS.data_key_bytes, kept.answer))
    asked = tuple((noun, place, within) for noun, place, within in document.get("asked", ()))
    return Answer(kept.status or 0, document["headers"], document["data"], asked)


def keep_answer(claim: int, answer: Answer) -> None:
    """Keep the answer of a claim; it may hold a secret shown once, so it's encrypted."""
    document = {"headers": dict(answer.headers), "data": answer.data, "asked": answer.asked}
    sealed = encrypt(settings.HEADWORKS.data_key_bytes, json.dumps(document))
    KeptAnswer.objects.filter(pk=claim).update(status=answer.status, answer=sealed)


def forget_old_answers(now: datetime) -> int:
    """Remove the answers whose time is over; returns how many."""
    removed, _ = KeptAnswer.objects.filter(created_at__lte=now - KEPT_FOR).delete()
    return removed

"""Answers kept for callers that repeat a request because they never heard the first one."""

from django.db.models import (
    BigAutoField,
    CharField,
    DateTimeField,
    Index,
    Model,
    PositiveSmallIntegerField,
    TextField,
    UniqueConstraint,
)
from django.utils import timezone


class KeptAnswer(Model):
    """One answer to one Idempotency-Key of one caller; `answer` is ciphertext.

    Written in the transaction of the write it answers, so others see it with its answer or not at
    all.
    """

    id = BigAutoField(primary_key=True)
    caller = CharField(max_length=64)
    key = CharField(max_length=255)
    fingerprint = CharField(max_length=64)
    status = PositiveSmallIntegerField(null=True, blank=True)
    answer = TextField(default="", blank=True)
    created_at = DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [UniqueConstraint(fields=["caller", "key"], name="kept_answer_unique")]
        indexes = [Index(fields=["created_at"], name="kept_answer_by_age")]

    def __str__(self) -> str:
        return f"{self.caller} {self.id}"

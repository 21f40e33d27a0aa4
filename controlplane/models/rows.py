"""What every row of the configuration has: an id, a version and two times."""

from collections.abc import Callable, Mapping

from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db.models import (
    CharField,
    CheckConstraint,
    DateTimeField,
    Model,
    PositiveIntegerField,
    Q,
)
from django.utils import timezone

from controlplane.identifiers import new_id
from inference.contract.params import NAME_PATTERN, ROUTE_NAME_PATTERN, TAG_PATTERN, Bound

ID_LENGTH = 40
LABEL_LENGTH = 100

# `$` would let a trailing line break through
_WHOLE_NAME = NAME_PATTERN.removesuffix("$") + r"\Z"
_WHOLE_ROUTE_NAME = ROUTE_NAME_PATTERN.removesuffix("$") + r"\Z"

plain_name = RegexValidator(_WHOLE_NAME, f"A name must match {NAME_PATTERN}.")
tag = RegexValidator(TAG_PATTERN.removesuffix("$") + r"\Z", f"A tag must match {TAG_PATTERN}.")
public_name = RegexValidator(_WHOLE_ROUTE_NAME, f"A name must match {ROUTE_NAME_PATTERN}.")


def id_field(make: Callable[[], str]) -> "CharField[str, str]":
    """The primary key: made here, never by the database, so that it is known before the insert."""
    return CharField(primary_key=True, max_length=ID_LENGTH, default=make, editable=False)


def name_matches(table: str, pattern: str) -> CheckConstraint:
    """The database holds names to the pattern too."""
    return CheckConstraint(
        condition=Q(name__regex=pattern),
        name=f"{table}_name_pattern",
        violation_error_message=f"A name must match {pattern}.",
    )


def printable_name(text: str) -> None:
    """Hold a free name to what the gateways' validator takes; raises ValidationError.

    Characters that can't be seen would let one name pass for another, or turn a line of text round.
    """
    if not text.isprintable():
        raise ValidationError("A name has no line breaks, tabs or characters that can't be seen.")


def name_is_label(table: str) -> CheckConstraint:
    """A free name: no control characters, no blanks around it. `printable_name` is stricter."""
    return CheckConstraint(
        condition=Q(name__regex=r"^[^[:cntrl:][:space:]]([^[:cntrl:]]*[^[:cntrl:][:space:]])?$"),
        name=f"{table}_name_label",
        violation_error_message="A name has no line breaks or tabs, and no blanks around it.",
    )


def in_bounds(table: str, bounds: Mapping[str, Bound]) -> list[CheckConstraint]:
    """The database holds numbers to the contract's bounds too; a null is not a number."""
    return [
        CheckConstraint(
            condition=_within(field, bound),
            name=f"{table}_{field}_in_range",
            violation_error_message=bound.words,
        )
        for field, bound in bounds.items()
    ]


def _within(field: str, bound: Bound) -> Q:
    asked = Q(**{f"{field}__gte": bound.minimum})
    if bound.maximum is not None:
        asked &= Q(**{f"{field}__lte": bound.maximum})
    return asked


class VersionedRow(Model):
    """A row people edit. `version` grows by one an edit and is what If-Match compares."""

    version = PositiveIntegerField(default=1, editable=False)
    created_at = DateTimeField(default=timezone.now, editable=False)
    updated_at = DateTimeField(default=timezone.now, editable=False)

    class Meta:
        abstract = True


def organisation_id() -> str:
    return new_id("org")


def team_id() -> str:
    return new_id("team")


def project_id() -> str:
    return new_id("proj")


def binding_id() -> str:
    return new_id("bind")


def service_account_id() -> str:
    return new_id("svc")


def token_id() -> str:
    return new_id("tok")


def key_id() -> str:
    return new_id("key")


def model_id() -> str:
    return new_id("mdl")


def price_id() -> str:
    return new_id("prc")


def price_version_id() -> str:
    return new_id("prv")


def correction_id() -> str:
    return new_id("cor")


def repricing_id() -> str:
    return new_id("rpr")


def gpu_price_id() -> str:
    return new_id("gpp")


def gateway_id() -> str:
    return new_id("gw")


def pool_id() -> str:
    return new_id("pool")


def route_id() -> str:
    return new_id("rt")


def target_id() -> str:
    return new_id("tgt")


def rule_id() -> str:
    return new_id("rule")


def limit_id() -> str:
    return new_id("lim")


def budget_id() -> str:
    return new_id("bud")


def switch_id() -> str:
    return new_id("sw")


def cache_policy_id() -> str:
    return new_id("cpol")


def purge_id() -> str:
    return new_id("purge")


def replay_id() -> str:
    return new_id("rpl")


def alert_rule_id() -> str:
    return new_id("arl")


def episode_id() -> str:
    return new_id("ale")


def silence_id() -> str:
    return new_id("sil")


def channel_id() -> str:
    return new_id("chn")


def delivery_id() -> str:
    return new_id("dlv")


def statement_id() -> str:
    return new_id("stm")


def export_id() -> str:
    return new_id("exp")


def schedule_id() -> str:
    return new_id("rsc")

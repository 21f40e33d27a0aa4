"""Edits of channels. Addresses and secrets go in and never come out."""

import re
from collections.abc import Mapping, Sequence
from datetime import time
from typing import Any, TypedDict, Unpack
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from controlplane.decisions.alert_kinds import ChannelKind
from controlplane.errors import InUse, Invalid
from controlplane.models import Channel, Organisation
from controlplane.notify.base import Target
from controlplane.notify.posting import problem_with_url
from controlplane.notify.registry import REGISTRY
from controlplane.services import edits, rows
from controlplane.services.actors import Actor
from controlplane.services.deliveries import drop_waiting, forget_threads
from inference.contract.sealing import decrypt, encrypt

NOUN = "channels"
MOST_RECIPIENTS = 50
LEAST_SECRET = 16
MOST_SECRET = 256
_SHOWN_CHARACTERS = 4
LONGEST_DIGEST_S = 86_400
_EDITABLE = frozenset(
    (
        *("name", "recipients", "url", "secret", "conversation", "signing_secret"),
        *("tells_switches", "digest_s", "quiet_from", "quiet_until", "critical_passes"),
        "is_enabled",
    )
)
_CONVERSATION = re.compile(r"[CGD][A-Z0-9]{6,40}")
_ON_AGAIN = {"disabled_reason": "", "failures": 0, "waits_until": None}


class ChannelOptions(TypedDict, total=False):
    """What a channel can be given besides where it leads; see `Channel`."""

    conversation: str
    tells_switches: bool
    digest_s: int
    quiet_from: time | None
    quiet_until: time | None
    critical_passes: bool
    is_enabled: bool


def create_channel(
    actor: Actor,
    *,
    organisation: Organisation | None,
    name: str,
    kind: str,
    recipients: Sequence[str] = (),
    url: str | None = None,
    secret: str | None = None,
    signing_secret: str | None = None,
    **options: Unpack[ChannelOptions],
) -> Channel:
    """Make a channel; without an organisation, the installation's. Raises Invalid."""
    if kind not in list(ChannelKind):
        raise Invalid.field("kind", "There is no such kind.")
    sealed = {"url": url, "secret": secret, "signing_secret": signing_secret}
    given = _stored({"recipients": list(recipients), **sealed})
    with transaction.atomic():
        channel = Channel(
            organisation=organisation,
            name=name,
            kind=kind,
            **given,
            **options,
        )
        _check(channel)
        rows.insert(channel)
        edits.note(actor, "create", NOUN, channel, after=_told(edits.values_of(channel)))
    return channel


def update_channel(
    actor: Actor,
    *,
    channel_id: str,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
) -> Channel:
    """Change the fields that are named; an address or secret that isn't named stays.

    Switched off, what waits is given up; switched on, it begins anew. Raises Invalid, NotFound or
    VersionMismatch.
    """
    edits.refuse_unknown(changes, _EDITABLE)
    values = _stored(changes)
    with transaction.atomic():
        channel = rows.lock(Channel, channel_id, expected_version=expected_version)
        is_switched = values.get("is_enabled", channel.is_enabled) is not channel.is_enabled
        if is_switched and values["is_enabled"]:
            values |= _ON_AGAIN
        candidate = Channel.objects.get(pk=channel.pk)
        for field, value in values.items():
            setattr(candidate, field, value)
        _check(candidate)
        changed = rows.change(channel, values)
        if changed is not None:
            if is_switched and not channel.is_enabled:
                drop_waiting(channel, timezone.now())
            before, after = changed
            if "conversation" in after:
                forget_threads(channel)
            edits.note(actor, "update", NOUN, channel, before=_told(before), after=_told(after))
    return channel


def delete_channel(actor: Actor, *, channel_id: str, expected_version: int | None = None) -> None:
    """Remove a channel that no rule tells, with its messages; raises InUse naming the rules."""
    with transaction.atomic():
        channel = rows.lock(Channel, channel_id, expected_version=expected_version)
        names = sorted(channel.rules.values_list("name", flat=True))
        if names:
            raise InUse.by(f"Channel {channel.name}", "alert_rules", names)
        before = _told(edits.values_of(channel))
        rows.remove(channel)
        edits.note(actor, "delete", NOUN, channel, before=before)


def target_of(channel: Channel) -> Target:
    """Where a channel leads, its secrets opened; raises SealError."""
    key = settings.HEADWORKS.data_key_bytes
    return Target(
        recipients=tuple(channel.recipients),
        url="" if channel.url is None else decrypt(key, channel.url),
        secret="" if channel.secret is None else decrypt(key, channel.secret),
        conversation=channel.conversation,
        takes_acts=channel.has_signing_secret,
    )


def signing_secret_of(channel: Channel) -> str | None:
    """What calls about its messages are signed with, None if nothing; raises SealError."""
    if channel.signing_secret is None:
        return None
    return decrypt(settings.HEADWORKS.data_key_bytes, channel.signing_secret)


def _stored(given: Mapping[str, Any]) -> dict[str, Any]:
    """Values as the row keeps them: address and secret sealed, with what is shown of each."""
    values = dict(given)
    key = settings.HEADWORKS.data_key_bytes
    if "url" in values:
        url = values["url"]
        if url is not None:
            problem = problem_with_url(url)
            if problem is not None:
                raise Invalid.field("url", f"The address {problem}.")
        values["host"] = "" if url is None else (urlsplit(url).hostname or "")[:255]
        values["url"] = None if url is None else encrypt(key, url)
    if "secret" in values:
        secret = values["secret"]
        if secret is not None:
            _check_secret(secret)
        values["secret_last4"] = "" if secret is None else secret[-_SHOWN_CHARACTERS:]
        values["secret"] = None if secret is None else encrypt(key, secret)
    if "signing_secret" in values:
        signing = values["signing_secret"]
        if signing is not None:
            _check_secret(signing, "signing_secret")
        values["signing_secret"] = None if signing is None else encrypt(key, signing)
    return values


def _check_secret(secret: str, field: str = "secret") -> None:
    if not LEAST_SECRET <= len(secret) <= MOST_SECRET:
        told = f"A secret has {LEAST_SECRET} to {MOST_SECRET} characters."
        raise Invalid.field(field, told)
    if not (secret.isascii() and secret.isprintable()):
        raise Invalid.field(field, "Printable ASCII characters only.")


def _check(channel: Channel) -> None:
    """Raise Invalid where the row hasn't what its kind needs, or has what it doesn't take."""
    known = REGISTRY[ChannelKind(channel.kind)]
    problems = {}
    for name in ("recipients", "url", "secret", "conversation", "signing_secret"):
        is_given = bool(getattr(channel, name))
        if name in known.needs and not is_given:
            problems[name] = [f"A channel of kind {channel.kind} needs this."]
        elif is_given and name not in known.takes:
            problems[name] = [f"A channel of kind {channel.kind} has none."]
    if len(channel.recipients) > MOST_RECIPIENTS:
        problems["recipients"] = [f"At most {MOST_RECIPIENTS} of them."]
    if channel.conversation and not _CONVERSATION.fullmatch(channel.conversation):
        problems["conversation"] = ["Give Slack's id of the channel, such as C0123456789."]
    if not 0 <= channel.digest_s <= LONGEST_DIGEST_S:
        problems["digest_s"] = [f"Give 0 to {LONGEST_DIGEST_S:,} seconds."]
    if (channel.quiet_from is None) != (channel.quiet_until is None):
        problems["quiet_until"] = ["Quiet hours have a beginning and an end."]
    if problems:
        raise Invalid("Some fields are not valid.", fields=problems)


def _told(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values for the audit trail: of address and secret only that there is one."""
    told = dict(values)
    for name in ("url", "secret", "signing_secret"):
        if name in told:
            told[f"has_{name}"] = told.pop(name) is not None
    return {name: one for name, one in told.items() if name not in ("failures", "waits_until")}

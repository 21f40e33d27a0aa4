"""Who an edit is made by, as it will stand in the audit trail."""

from dataclasses import dataclass
from enum import StrEnum

from controlplane.models import ServiceAccount, User


class ActorKind(StrEnum):
    USER = "user"
    SERVICE_ACCOUNT = "service_account"
    SYSTEM = "system"
    SLACK = "slack"


class Via(StrEnum):
    """The door an edit came in by."""

    CONSOLE = "console"
    API = "api"
    COMMAND = "command"
    JOB = "job"
    SLACK = "slack"


@dataclass(frozen=True, slots=True)
class Actor:
    """A caller. `label` is its name when it acted; `reason` is what it said the edit is for."""

    kind: ActorKind
    id: str
    label: str
    via: Via
    request_id: str = ""
    reason: str = ""


def user_actor(user: User, *, via: Via, request_id: str = "", reason: str = "") -> Actor:
    """A signed-in person."""
    return Actor(ActorKind.USER, str(user.pk), user.get_username(), via, request_id, reason)


def service_account_actor(
    account: ServiceAccount, *, request_id: str = "", reason: str = ""
) -> Actor:
    """A program with a token."""
    return Actor(ActorKind.SERVICE_ACCOUNT, account.pk, account.name, Via.API, request_id, reason)


def slack_actor(member_id: str, name: str, *, request_id: str = "", reason: str = "") -> Actor:
    """A member of Slack whom nobody has mapped to a person of the organisation."""
    return Actor(ActorKind.SLACK, member_id, f"Slack: {name}", Via.SLACK, request_id, reason)


def system_actor(label: str, *, via: Via, reason: str = "") -> Actor:
    """The installation itself, by a command or a background job."""
    return Actor(ActorKind.SYSTEM, "system", label, via, reason=reason)

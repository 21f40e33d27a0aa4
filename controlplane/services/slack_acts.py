"""What people do about alerts in Slack: each signed call is acted on once, whoever repeats it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from controlplane.decisions.alert_kinds import EpisodeState
from controlplane.errors import Conflict, NotAllowed, NotFound
from controlplane.models import Channel, Episode, RoleBinding, SlackCall, User
from controlplane.selectors.access import get_access_of_user
from controlplane.services.actors import Actor, Via, slack_actor, user_actor
from controlplane.services.episodes import update_episode

SNOOZED_FOR = timedelta(hours=1)
KEPT_FOR = timedelta(minutes=10)
"""Twice as long as a call may be old: the same signature is valid no longer."""


@dataclass(frozen=True, slots=True)
class SlackAct:
    """Somebody in Slack presses a button: what is to become of which alert."""

    member_id: str
    member_name: str
    state: EpisodeState
    episode_id: str


def act(
    channel: Channel, asked: SlackAct, *, signature: str, request_id: str, now: datetime
) -> Episode:
    """Do it, as the person whose member id this is, or as that member of Slack.

    A person of the channel's organisation needs the roles he would need in the console; any other
    member may act on what is told where he can read it, under his own name. Raises Conflict for a
    call that was acted on already and for an alert that is over, NotFound, or NotAllowed.
    """
    with transaction.atomic():
        _take(signature, now)
        found = Episode.objects.filter(pk=asked.episode_id, organisation_id=channel.organisation_id)
        if not found.exists():
            raise NotFound
        changes: dict[str, object] = {"state": asked.state.value}
        if asked.state is EpisodeState.SNOOZED:
            changes["snoozed_until"] = now + SNOOZED_FOR
        actor = _actor_of(channel, asked, request_id)
        return update_episode(actor, episode_id=asked.episode_id, changes=changes)


def _take(signature: str, now: datetime) -> None:
    """Write down that a call is acted on; whoever comes second finds it there."""
    SlackCall.objects.filter(at__lt=now - KEPT_FOR).delete()
    _, is_new = SlackCall.objects.get_or_create(signature=signature, defaults={"at": now})
    if not is_new:
        raise Conflict("This was done already.")


def _actor_of(channel: Channel, asked: SlackAct, request_id: str) -> Actor:
    # whoever edits the channel knows what calls are signed with: nobody from elsewhere is named
    user = _people_of(channel).filter(slack_id=asked.member_id).exclude(slack_id="").first()
    told = {"request_id": request_id, "reason": f"By a button in Slack, channel {channel.name}."}
    if user is None:
        return slack_actor(asked.member_id, asked.member_name, **told)
    access = get_access_of_user(user)
    if not user.is_active or not access.may_write("alerts", str(channel.organisation_id)):
        raise NotAllowed("Your roles in Headworks don't allow that.")
    return user_actor(user, via=Via.SLACK, **told)


def _people_of(channel: Channel) -> QuerySet[User]:
    """Those with a role in the channel's organisation; for the installation's, who runs it."""
    if channel.organisation_id is None:
        return User.objects.filter(is_superuser=True)
    bindings = RoleBinding.objects.filter(user=OuterRef("pk"))
    return User.objects.filter(Exists(bindings.filter(organisation_id=channel.organisation_id)))

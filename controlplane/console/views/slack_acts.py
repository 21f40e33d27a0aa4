"""Where Slack calls when somebody presses a button under an alert.

No session and no token: a call is known by its signature alone, and acted on once.
"""

from http import HTTPStatus

import structlog
from django.http import HttpRequest, HttpResponse, HttpResponseNotFound
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from controlplane.decisions.alert_kinds import ChannelKind, EpisodeState
from controlplane.errors import ControlPlaneError
from controlplane.middleware import request_id_of
from controlplane.models import Channel
from controlplane.notify.base import Undelivered
from controlplane.notify.channels.slack_bot import ACKNOWLEDGE, SNOOZE, whisper
from controlplane.notify.slack_calls import MOST_BYTES, Press, is_signed, press_of
from controlplane.selectors.deliveries import list_threads
from controlplane.services.channels import signing_secret_of, target_of
from controlplane.services.slack_acts import SlackAct, act
from inference.contract.sealing import SealError

_STATES = {ACKNOWLEDGE: EpisodeState.ACKNOWLEDGED, SNOOZE: EpisodeState.SNOOZED}

log = structlog.get_logger(__name__)


@csrf_exempt
@require_POST
def slack_acts(request: HttpRequest, pk: str) -> HttpResponse:
    """Do what a signed call asks; Slack is told 200 for whatever was understood.

    A channel that is off takes no calls.
    """
    found = Channel.objects.filter(pk=pk, kind=ChannelKind.SLACK_BOT.value, is_enabled=True)
    channel = found.select_related("organisation").first()
    try:
        secret = None if channel is None else signing_secret_of(channel)
    except SealError:
        log.warning("signing secret can't be opened with this data key", channel=pk)
        return HttpResponse(status=HTTPStatus.SERVICE_UNAVAILABLE)
    if channel is None or secret is None:
        return HttpResponseNotFound()
    if int(request.headers.get("Content-Length") or 0) > MOST_BYTES:
        return HttpResponse(status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    now = timezone.now()
    if not is_signed(secret, request.headers, request.body, now_s=now.timestamp()):
        log.warning("call that Slack did not sign", channel=channel.pk)
        return HttpResponse(status=HTTPStatus.UNAUTHORIZED)
    press = press_of(request.body)
    if press is None or press.action not in _STATES:
        return HttpResponse()
    asked = SlackAct(press.member_id, press.member_name, _STATES[press.action], press.value)
    signature = request.headers["X-Slack-Signature"]
    try:
        episode = act(
            channel, asked, signature=signature, request_id=request_id_of(request), now=now
        )
    except ControlPlaneError as error:
        _tell(channel, press, error.detail)
    else:
        if channel not in list_threads([episode.pk], [channel.kind]).get(episode.pk, ()):
            # no message of its own shows it
            _tell(channel, press, f"{episode.name}, {episode.subject_name}: {episode.state}.")
    return HttpResponse()


def _tell(channel: Channel, press: Press, words: str) -> None:
    """Say to the member alone why nothing was done; if that fails, nobody is worse off."""
    try:
        whisper(target_of(channel), press.member_id, words)
    except Undelivered as error:
        log.warning("member not told", channel=channel.pk, why=error.failure.words)
    except SealError:
        log.warning("token can't be opened with this data key", channel=channel.pk)

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
from controlplane.services.channels import signing_secret_of, target_of
from controlplane.services.slack_acts import SlackAct, act

_STATES = {ACKNOWLEDGE: EpisodeState.ACKNOWLEDGED, SNOOZE: EpisodeState.SNOOZED}

log = structlog.get_logger(__name__)


@csrf_exempt
@require_POST
def slack_acts(request: HttpRequest, pk: str) -> HttpResponse:
    """Do what a signed call asks; Slack is told 200 for whatever was understood."""
    found = Channel.objects.filter(pk=pk, kind=ChannelKind.SLACK_BOT.value)
    channel = found.select_related("organisation").first()
    secret = None if channel is None else signing_secret_of(channel)
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
        act(channel, asked, signature=signature, request_id=request_id_of(request), now=now)
    except ControlPlaneError as error:
        _tell(channel, press, error.detail)
    return HttpResponse()


def _tell(channel: Channel, press: Press, words: str) -> None:
    """Say to the member alone why nothing was done; if that fails, nobody is worse off."""
    try:
        whisper(target_of(channel), press.member_id, words)
    except Undelivered as error:
        log.warning("member not told", channel=channel.pk, why=error.failure.words)

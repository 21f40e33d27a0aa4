"""Which file speaks for which kind of channel."""

from collections.abc import Mapping

from controlplane.decisions.alert_kinds import ChannelKind
from controlplane.notify.base import ChannelType
from controlplane.notify.channels import email, slack, slack_bot, webhook

REGISTRY: Mapping[ChannelKind, ChannelType] = {
    ChannelKind.EMAIL: email.CHANNEL,
    ChannelKind.SLACK: slack.CHANNEL,
    ChannelKind.SLACK_BOT: slack_bot.CHANNEL,
    ChannelKind.WEBHOOK: webhook.CHANNEL,
}

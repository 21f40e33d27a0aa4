"""Slack, by an incoming webhook."""

import msgspec

from controlplane.notify.base import ChannelType, Message, Sent, Target
from controlplane.notify.posting import post
from controlplane.notify.slack_blocks import blocks_of, escaped


def send(target: Target, message: Message) -> Sent:
    """Post the message; a webhook of Slack's knows no ids, and can't be asked what it took."""
    document = {"text": escaped(message.content["title"]), "blocks": blocks_of(message)}
    headers = {"Content-Type": "application/json", "User-Agent": "Headworks"}
    return Sent(post(target.url, msgspec.json.encode(document), headers))


CHANNEL = ChannelType(label="Slack", needs=frozenset({"url"}), takes=frozenset({"url"}), send=send)

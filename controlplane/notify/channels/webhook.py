"""A signed webhook: JSON by POST, with a signature over time and body, and the message's id."""

import hashlib
import hmac

import msgspec
from django.utils import timezone

from controlplane.notify.base import ChannelType, Message, Sent, Target
from controlplane.notify.posting import post

ID_HEADER = "X-Headworks-Delivery"
SIGNATURE_HEADER = "X-Headworks-Signature"


def signature_of(secret: str, timestamp: int, body: bytes) -> str:
    """`t=<unix seconds>,v1=<hex>`: HMAC-SHA256 over the seconds, a point and the body."""
    signed = f"{timestamp}.".encode() + body
    return f"t={timestamp},v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


def send(target: Target, message: Message) -> Sent:
    """Post the message; the receiver knows a repeat by its id."""
    document = {
        "id": message.id,
        "kind": message.kind,
        "at": message.at,
        "title": message.content["title"],
        "text": message.content["text"],
        "severity": message.content["severity"],
        "url": message.url,
        "alerts": message.content.get("alerts", []),
    }
    body = msgspec.json.encode(document)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Headworks",
        ID_HEADER: message.id,
        SIGNATURE_HEADER: signature_of(target.secret, int(timezone.now().timestamp()), body),
    }
    return Sent(post(target.url, body, headers))


CHANNEL = ChannelType(
    label="Webhook",
    needs=frozenset({"url", "secret"}),
    takes=frozenset({"url", "secret"}),
    send=send,
    takes_repeats=True,
)

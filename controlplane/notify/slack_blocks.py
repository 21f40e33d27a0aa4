"""Messages as Slack shows them: in blocks, whose texts can't be commands."""

from controlplane.notify.base import Message

_TITLE_LENGTH = 150
_TEXT_LENGTH = 2_900
_MOST_FACTS = 10
"""Slack's own bounds, a little below."""


def escaped(text: object) -> str:
    """Text that Slack shows as it is: no link, no mention, no markup of its own."""
    plain = str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # a zero-width space before what would begin a format
    return "".join(f"\u200b{one}" if one in "*_~`" else one for one in plain)


def blocks_of(message: Message) -> list[dict[str, object]]:
    """The message as Block Kit: header, text, facts, and a link to the console."""
    content = message.content
    facts = [
        {"type": "mrkdwn", "text": f"*{escaped(label)}*\n{escaped(value)[: _TEXT_LENGTH // 2]}"}
        for label, value in content.get("facts", ())[:_MOST_FACTS]
    ]
    title = {"type": "plain_text", "text": content["title"][:_TITLE_LENGTH], "emoji": False}
    text = {"type": "mrkdwn", "text": escaped(content["text"])[:_TEXT_LENGTH] or "\u200b"}
    link = {"type": "mrkdwn", "text": f"<{message.url}|Open in Headworks> \u00b7 {message.id}"}
    return [
        {"type": "header", "text": title},
        {"type": "section", "text": text},
        *([{"type": "section", "fields": facts}] if facts else []),
        {"type": "context", "elements": [link]},
    ]

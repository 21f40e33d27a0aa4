"""Messages to people: how each kind of channel says one and hands it over.

Belongs here: words and bytes of one message, and the call that hands it over. Does not belong here:
rows, retries, who is told (services and `alerting.outbox`). To add a channel: its kind in
`decisions/alert_kinds.py`, a file in `channels/`, its entry in `registry.py`, and its templates.
"""

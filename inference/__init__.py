"""The data plane: everything that touches a caller's request.

Belongs here: the gateway, the pool supervisor, and what both share. Does not belong here: Django,
Celery, Channels, Plotly or anything that needs them; the data plane serves when they are down.
"""

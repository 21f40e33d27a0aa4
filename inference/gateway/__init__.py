"""The HTTP shell: callers on one side, workers on the other, one straight line between them.

Belongs here: the ASGI app and its routes, identifying callers, reading and forwarding bodies, the
relay of streams, turning errors into responses, and the processes that do it (`parent`, `child`).
Does not belong here: deciding anything (`inference.decisions`), connections to workers
(`inference.workers`), worker state (`inference.fleet`). To add an endpoint: a handler under
`handlers/`, listed in `routes`.
"""

"""One file an endpoint: what it answers with, given the process's services and the caller.

Belongs here: reading a request, calling the pipeline or the snapshot, shaping the answer. Does not
belong here: anything two endpoints share. To add one: a coroutine like the others, listed in
`gateway.routes`.
"""

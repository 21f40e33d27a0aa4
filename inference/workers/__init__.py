"""Talking to the servers that run the models.

Belongs here: the upstream connections (`connections`, `answers`), and what each kind of
backend may be asked (`base`, `registry`, one file a kind under `backends/`). Does not belong here:
which worker to talk to (`inference.decisions.plan`), or what a worker's state is
(`inference.fleet`). To add a backend: name it in `contract.kinds.Backend`, write
`backends/<kind>.py` with its `TRAITS`, list it in `registry`.
"""

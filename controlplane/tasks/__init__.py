"""Background jobs: small, safe to repeat, on ids alone.

Belongs here: what Celery runs and nobody waits for. Does not belong here: rules (decisions), writes
(services) or anything traffic needs, which goes on when the jobs are down. To add one: a function
in the file of its noun, the file in `controlplane.celery`'s imports, and its period in the schedule
there.
"""

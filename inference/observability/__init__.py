"""What can be seen from outside of a process: logs and metrics.

Belongs here: how log lines look and what never gets into them, and the metrics a process keeps on a
registry it was given. Does not belong here: facts that may not be lost (`inference.journal`) and
live state (`inference.vitals`). To add a metric: a field of the class of its process in `metrics`,
with labels whose values the configuration bounds.
"""

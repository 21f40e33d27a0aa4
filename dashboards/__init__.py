"""The console's look, and its live panels.

Belongs here: style sheets, scripts and vendored files under static/, and what computes and relays
live panels. Does not belong here: pages of configuration and forms (`controlplane.console`) or
reads of rows (`controlplane.selectors`). What else of the control plane this imports is named, with
the reason, in pyproject.toml. To vendor a file: the minified one alone, without its source-map
comment, and its licence in NOTICE beside it. To add a panel: see `panels`.
"""

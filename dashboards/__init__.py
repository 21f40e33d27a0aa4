"""The console's look, and its live panels.

Belongs here: style sheets, scripts and vendored files under static/, and what computes and relays
live panels. Does not belong here: pages and forms (`controlplane.console`) or reads of rows
(`controlplane.selectors`, the only part of the control plane this imports). To vendor a file: the
minified one alone, without its source-map comment, and its licence in NOTICE beside it.
"""

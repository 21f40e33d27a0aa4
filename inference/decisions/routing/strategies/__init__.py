"""One file a routing strategy, named for its kind; each offers its `STRATEGY`."""

"""One file a routing strategy, named for its kind; each offers `order_targets`."""

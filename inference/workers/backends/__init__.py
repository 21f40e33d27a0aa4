"""One file a kind of backend, named for it; each offers its `TRAITS`."""

"""The one-machine installation: real processes, in folders of their own."""

"""The helper process and the gateway's line to it."""

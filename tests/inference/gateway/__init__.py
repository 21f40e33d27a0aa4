"""The gateway over real sockets: raw clients on one side, scripted upstreams on the other."""

"""The data plane's shells, on real stores, disks and processes."""

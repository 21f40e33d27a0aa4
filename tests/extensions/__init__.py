"""Every implementation of an extension point passes the one suite of its point."""

"""The lease machine on real stores, in one process and over several."""

"""Reads: what a caller may see, one file a noun.

Belongs here: querysets that begin with the caller's access, so that another tenant's object isn't
there to be found. Does not belong here: writes, and anything formatted for a page. To add one:
`get_…` for one and `list_…` for many, the access first.
"""

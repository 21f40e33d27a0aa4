"""Tags by which pages of other apps show live parts, without importing them.

Belongs here: a tag for each part that stands in somebody else's page. Does not belong here:
figures, access or queries; they are of `pages` and of the documents the parts ask for.
"""

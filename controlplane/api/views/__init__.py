"""Views of the API, one file a noun: check the role, call a selector or one service, shape it."""

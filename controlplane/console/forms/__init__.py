"""Forms of the pages, one file a noun: which control a field gets; rules are the services'."""

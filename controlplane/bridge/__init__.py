"""This plane's end of the pipes to the data plane: configuration out, facts in.

Belongs here: what speaks the wire names of `inference.contract`, and how long this plane waits for
its database and its state store. Does not belong here: rules about what is sent or what a fact
means. To add one: a module named for what passes through it.
"""

"""This plane's end of the pipes to the data plane: configuration out, facts in.

Belongs here: what speaks the wire names of `inference.contract`. Does not belong here: rules about
what is sent or what a fact means. To add one: a module named for what passes through it.
"""

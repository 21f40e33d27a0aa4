"""The pool supervisor: keeps the workers that the configuration wants.

Belongs here: the supervisor's loop, the provisioners and what they start workers with, and what is
told of workers beside the directory: gauges of how busy they are, tails of their logs. Does not
belong here: what should happen to a worker (`inference.decisions.lifecycle`) and who is told
(`inference.fleet`). To add a way of getting workers: name it in `kinds.Provisioner`, write
`provisioners/<kind>.py` to the protocol in `base`, list it in `registry`; the suite in
tests/extensions covers it.
"""

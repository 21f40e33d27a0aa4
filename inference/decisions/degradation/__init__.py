"""What a route does less well to serve more: when steps are taken, and what each does to a request.

Belongs here: the ladder (`ladder`), the steps by kind (`registry`, `steps/`, one file each) and
what a step is given and gives back (`base`). Does not belong here: measuring how full pools are,
and keeping ladders (`inference.queues`). To add a step: name it in `contract.kinds` at the place
where it is to be taken, write `steps/<kind>.py`, and list it in the registry.
"""

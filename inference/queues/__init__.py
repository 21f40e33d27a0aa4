"""Requests that wait for a worker with room, and what routes do less well while many do.

Belongs here: the waiting room of a process (`room`), the order of those who wait for one pool
(`lines`, `fair`), and the ladders of degradation (`ladders`). Does not belong here: how much of a
worker a process may have, who goes first and what a step does, which are decided in
`inference.decisions` (`queueing`, `degradation`), and the workers themselves (`inference.fleet`).
To add a step of degradation: `inference.decisions.degradation`.
"""

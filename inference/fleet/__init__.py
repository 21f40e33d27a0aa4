"""The workers there are, as every process of the data plane sees them.

Belongs here: the directory the leading supervisor writes and everybody reads, the lease that makes
it the leader, and a gateway's live view of workers built on them: what is under way there by this
process and by others, breakers, retry budgets, who was sent which prompts. Does not belong here:
starting and ending workers (`inference.pools`) and choosing one for a request
(`inference.decisions`). To add a fact about a worker: a field of `contract.fleet.WorkerEntry`,
written by the supervisor.
"""

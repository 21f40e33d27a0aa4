"""Limits over all gateways: counters in the state store, used by slices that processes hold ahead.

Belongs here: the lease machine (`slices`, `shelf`, `leases`: what this process holds of each
counter, and who waits for more), the way to the store (`batches`, `link`, `broker`; its scripts are
`inference.contract.lease_scripts`), what a gateway asks of it for a request (`limiter`), and what
becomes of a budget that is put to the test (`proofs`). Does not belong here: which limits bear on
a request and what a refusal says (`inference.decisions.admission`), and HTTP (`inference.gateway`).

The interface, for whoever counts something else, money for one:

- a `Counter` names what is counted, its amount (a whole number, exact up to 2**62) and its window;
- a `Claim` is what a request wants of it: `floor` must be left, `take` is reserved; a strict one
  fails when the store is away, another goes without and is named in `Permit.lacking`;
- `take(id, claims)` gives a `Permit`, or a future for `outcome`: all claims of one organisation in
  one step, or `OutOfUnits` with every counter that is short, or `CountersUnknown`;
- `settle(permit, {place: used})` ends it, once; used may be less or more than was taken. `told`
  waits until the store has heard of more.

A permit lives as long as its process: what a dead one had taken of a counter with windows stays
counted, of one without returns after three missed beats. To settle it afterwards, by its id from
the journal, is for whoever needs that.
"""

"""The vocabulary the planes share: frozen values and the names and codecs they travel under.

Belongs here: records, kinds, wire names, versioned codecs, seals. Does not belong here: decisions
(they go to `inference.decisions`), I/O, or anything with state. To add a value: write it in the
module of its flow, bump that document's version in `codec` if old readers would misread it, and
add a golden file under tests/contract/golden.
"""

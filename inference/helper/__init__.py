"""The helper process, one a host: what gateways would not load themselves, behind a socket.

It has tokenizer, sentence embedder and semantic index. `client` and `messages` are the gateway's
side and load none of that. Nobody depends on it: where it is down or late, the semantic tier of the
caches finds nothing.
"""

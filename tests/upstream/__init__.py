"""The scriptable upstream: a process that speaks OpenAI's API and does what a test tells it.

Belongs here: its server, its script vocabulary, the client tests steer it with. It is the other
side of the wire, never a replacement for a part of ours; end-to-end tests use a real engine.
"""

"""The REST API: shape in, one service call, shape out.

Belongs here: what a caller sends and gets (serializers), which service that is (views), and how
callers are known. Does not belong here: rules, transactions, queries. To add a noun: a serializer
and a view of its name, and a line in `urls`.
"""

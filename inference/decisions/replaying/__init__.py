"""Answers in a neutral form, told again as a stream or whole, whichever is asked for.

What belongs: of each dialect how a stream is put together to the answer it would have been, and
taken apart again. What does not: which answers are kept (`decisions.caching`), and bytes. The
neutral form is the whole answer of the request's own dialect, as if it had not been streamed. To
add a dialect, write a `Form` and name it in `registry.py`.
"""

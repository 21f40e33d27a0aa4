"""What an engine's own environment is made of: pinned requirements for CPU and for CUDA.

Belongs here: the requirements files, in the steps they are installed in. Does not belong here: the
start line and what may be passed on it (`inference.decisions.engine`), or any import of an engine:
it runs in another environment. To change a version: change its line; the environment is kept by
the digest of its file, so the next start builds a new one.
"""

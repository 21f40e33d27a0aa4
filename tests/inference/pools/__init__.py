"""The pool supervisor on real processes, sockets and stores."""

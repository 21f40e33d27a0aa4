"""What stops the installation, in a sentence for the person at the terminal."""


class LocalProblem(Exception):
    """Shown as it is, without a traceback; the process ends with exit code 1."""

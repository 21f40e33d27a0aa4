"""The control plane: one Django app, a grid of layers and nouns.

Belongs here: rows, what changes them, what reads them, and their pages and API. A layer is a
folder (models, selectors, services, api, console, tasks), a noun is a file in it. Does not belong
here: anything that serves traffic (`inference`) or draws live panels (`dashboards`). To add a noun:
one file a layer, named alike, then its section in `compiler` if the data plane must know it.

Nothing is imported here: `controlplane.local` runs where Django isn't started.
"""

__version__ = "0.1.0"

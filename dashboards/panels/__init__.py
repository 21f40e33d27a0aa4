"""The charts of the live pages, one file a panel.

Belongs here: what a panel draws of the live figures, and the sentence that says what it shows. Does
not belong here: Plotly (`figures`), colours (the page's theme) and reads. To add one: name it in
`dashboards.kinds.PanelKind`, write the file with its `PANEL`, enter it in `dashboards.registry`.
"""

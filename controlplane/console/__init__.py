"""The console's pages: form -> service -> redirect, selector -> page.

Belongs here: views, forms, tables, navigation and how figures are written for people. Does not
belong here: rules, writes and queries; they are called from services and selectors, and so have the
API beside them. To add a page: a view named for its noun, its path in `urls`, its entry in
`navigation`, its templates under templates/console/<noun>/.
"""

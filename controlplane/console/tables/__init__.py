"""Tables of the pages, one file a noun: which columns, and how each cell is written."""

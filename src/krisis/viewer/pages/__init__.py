"""One module per page; each returns its facts, from which HTML and JSON are made alike."""

"""One screen per module, with its style sheet beside it."""

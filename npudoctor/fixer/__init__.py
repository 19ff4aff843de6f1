"""Plans, previews, applies, proves and undoes fixes; the only code that changes a node."""

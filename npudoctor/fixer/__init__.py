"""Plans, previews, applies, verifies and undoes fixes; the only code that changes a node."""

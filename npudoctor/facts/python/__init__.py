"""Facts about the target Python: which one it is, its packages, its imports and its devices."""

"""Explains checks, known issues, codes and failing logs: meaning, fix, and the checks that detect them."""

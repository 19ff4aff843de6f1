"""Recorded nodes: reading, writing, and answering from them."""

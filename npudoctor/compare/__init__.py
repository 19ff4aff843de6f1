"""Differences between nodes."""

"""Simulated nodes: a file tree in memory that fixes can change."""

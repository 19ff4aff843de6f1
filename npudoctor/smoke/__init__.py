"""The smoke run: a tiny training over all cards, watched rank by rank, that proves the node or names what breaks it."""

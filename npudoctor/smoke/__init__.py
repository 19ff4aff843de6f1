"""The smoke run: a tiny training on all NPUs, monitored rank by rank, that passes or names the failing rank."""

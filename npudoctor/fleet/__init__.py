"""Many nodes, one verdict: what each node answers in one line, how the answers are gathered, and what differs."""

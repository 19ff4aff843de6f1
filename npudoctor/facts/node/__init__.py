"""Facts about the node as a whole: its chips, who holds them, its role, containers and the job's environment."""

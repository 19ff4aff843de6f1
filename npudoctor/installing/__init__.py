"""Driver and firmware from packages: copied, installed by a process that outlives npudoctor, verified, never undone."""

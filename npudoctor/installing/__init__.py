"""Driver and firmware from packages: copied, installed by a process that outlives npudoctor, proved, never undone."""

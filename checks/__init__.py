"""What npudoctor checks, one module a subject; loaded through an entry point like any stranger's plug-in."""

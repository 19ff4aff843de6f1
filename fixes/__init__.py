"""What npudoctor mends, one module a fix or tight family; loaded through an entry point like any stranger's plug-in."""

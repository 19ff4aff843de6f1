"""What npudoctor can fix, one module a fix or tight family; loaded through an entry point like any other plug-in."""

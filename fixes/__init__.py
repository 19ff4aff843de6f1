"""The built-in fixes, one module per fix or family; loaded through an entry point like a plug-in."""

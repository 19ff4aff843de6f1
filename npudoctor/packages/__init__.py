"""Package files in a folder: what each is, which fit a node, which match, and the plan to install them.

A file is identified by name and header. No file is executed, and of each only bounded parts are read.
"""

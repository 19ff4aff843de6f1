"""The content of the terminal interface as plain data, independent of drawing."""

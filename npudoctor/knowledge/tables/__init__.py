"""The data tables of npudoctor: NAME.json holds the rows, NAME.py their types and loader."""

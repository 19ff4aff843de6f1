"""Typed facts of a node, one module a source: frozen dataclasses, pure parsers, thin probes.

`PROBES` below names the modules whose probes npudoctor itself brings; plug-ins add theirs through an entry point.
"""

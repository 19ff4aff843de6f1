"""The checks across nodes. Each takes the fact `Fleet`; a plug-in adds its own by the entry point group
`npudoctor.fleet`, in the same form."""

"""What npudoctor keeps of a node and what it removes: credentials, command lines, names and addresses."""

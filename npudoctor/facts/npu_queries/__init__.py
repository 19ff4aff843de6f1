"""What `npu-smi info -t` says of a card or a chip beside its board, a module for each family of pages."""

"""This machine: real commands, files and measurements, and who may run and change what."""

"""The commands of `traintrace`, one file each; importing them loads click and nothing heavy."""

"""Runs with known faults, made from seeds, and how well the analysis finds them."""

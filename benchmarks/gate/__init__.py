"""How often the gates are wrong: simulated runs of the same code, and of slower code."""

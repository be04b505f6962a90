"""How often the lens on convergence sees what is not there, and how often it sees what is."""

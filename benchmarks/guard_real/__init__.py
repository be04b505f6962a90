"""How the guard decides about real training on this machine: the same code, and a slower backward."""

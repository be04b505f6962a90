"""How often the limiting stage is right, how far what-ifs are off, and what wrapping a queue costs."""

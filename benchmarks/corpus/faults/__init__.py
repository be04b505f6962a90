"""What can be wrong with a run, one module for each family or two."""

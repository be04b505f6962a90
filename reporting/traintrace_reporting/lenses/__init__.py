"""What the report says beyond time: one file a lens, each with its JSON section and its lines in the terminal."""

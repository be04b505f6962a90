"""One SQLite file per rank: its schema, writing, reading, keeping it small, and saving what a damaged one still holds."""

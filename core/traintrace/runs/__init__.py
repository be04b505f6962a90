"""A run as a whole: who this process is in its job, where the run goes, its manifest, and opening it for reading."""

"""Is it slower? Two sides of runs compared, and the gates that answer with a stated error rate.

Pure functions from summaries to a `Comparison`: no files, no printing.
"""

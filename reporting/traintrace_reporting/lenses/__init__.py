"""What the report says beyond time: for each lens its section of the summary, and in `..._rows` its lines.

The two are apart since loading Rich draws a random number, and a summary may be asked for in the middle of training.
"""

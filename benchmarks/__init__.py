"""Measurements: what tracing costs, how often findings are right, how analysing grows; figures and method are in README.md beside this file."""

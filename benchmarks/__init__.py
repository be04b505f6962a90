"""Measurements of what tracing costs; figures and method are in README.md beside this file."""

"""Batches of problems on a GPU."""

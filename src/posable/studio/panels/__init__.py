"""The panels of the page: one file, one function each."""

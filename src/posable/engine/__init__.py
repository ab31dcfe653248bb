"""The compiled core: plain functions over flat arrays, compiled by Numba when they are first needed.

Nothing in here knows a name, an object or a file. `fields` is the table of every array; `compiler` turns the plain
functions into machine code.
"""

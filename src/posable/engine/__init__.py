"""The compiled core: plain functions over flat arrays, compiled by Numba when they are first needed.

Nothing here refers to names, objects or files. `layout` documents every array; `jit` compiles the functions.
"""

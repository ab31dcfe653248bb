"""An example plug-in of Posable: a goal, a solver and a file format, found through entry points."""

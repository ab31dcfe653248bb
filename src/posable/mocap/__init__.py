"""Motion: from markers, paths and other figures to clean animation. One file per job; public names are in `posable`."""

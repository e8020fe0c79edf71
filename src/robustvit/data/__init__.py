"""Data sets: `scenes`, which needs no files, and readers of the layouts that published data sets have on disk."""

"""Datasets on disk, one layout per file."""

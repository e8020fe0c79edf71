"""Datasets: `scenes`, which needs no files, and readers of the layouts that published datasets have on disk."""

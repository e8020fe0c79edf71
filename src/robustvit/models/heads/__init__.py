"""Heads beside the classifier."""

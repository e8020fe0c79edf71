"""Measuring how much of a network's accuracy survives."""

"""Grids of training and evaluation runs: `sweep.sweep`, `grid.parse_vary`, `result.SweepResult`."""

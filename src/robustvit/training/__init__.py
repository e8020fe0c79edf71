"""Training: one loop for every network, method and dataset."""

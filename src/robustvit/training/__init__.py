"""Training: one loop for every network, method and data set."""

"""What networks do inside: attention, grouping of tokens, decay of noise. Functions from a model and batches to arrays."""

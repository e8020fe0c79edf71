"""The corruptions of ImageNet-C and its relatives, on batches of uint8 pictures: exact, seeded by sample, fast."""

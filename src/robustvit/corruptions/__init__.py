"""The corruptions of ImageNet-C and its relatives, on batches of uint8 images: exact, seeded by sample, fast."""

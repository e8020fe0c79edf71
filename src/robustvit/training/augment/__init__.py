"""What happens to training samples before the network sees them."""

"""What networks say about the images and films of a user, as files: `predict`."""

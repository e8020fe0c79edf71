"""DeepAugment: images distorted by broken or random image-to-image networks."""

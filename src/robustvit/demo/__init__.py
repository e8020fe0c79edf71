"""The demonstration: a plain ViT and a FAN with TAP and ADL, trained and measured side by side in minutes."""

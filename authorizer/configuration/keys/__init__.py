"""Configuration keys: one file for each of those who set them."""

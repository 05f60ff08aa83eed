"""Presets, local models, and the exact command made of them."""

"""Presets made of what people have: pasted commands, docker runs, settings files. Nothing in them is executed."""

"""Engine environments on disk, and what they can do."""

"""Engine processes: start, watch, stop, adopt; their logs and records."""

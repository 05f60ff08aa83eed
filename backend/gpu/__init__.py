"""What is known of the graphics cards, each read by a process of its own."""

"""What speaks against a launch, said before it."""

"""Conversations, the answers being written, and how long they took."""

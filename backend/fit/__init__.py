"""Will it fit? The memory of a model on a card, by arithmetic: weights, KV cache, overheads, and the engine's own figures."""

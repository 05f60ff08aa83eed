"""Engine processes, presets, chats and readings. Knows no web framework's page and imports no engine library."""

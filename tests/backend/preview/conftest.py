"""Previews are of launches, so they share the launch tests' presets and engines."""

from tests.backend.launch.conftest import (  # noqa: F401  fixtures
    cpu_preset,
    preset_text,
    shelf,
    volta_preset,
)

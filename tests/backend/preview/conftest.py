"""Previews are of launches, so they share the launch tests' presets and engines."""

from tests.backend.launch.conftest import (  # noqa: F401  fixtures
    shelf,
    preset_text,
    cpu_preset,
    volta_preset,
)

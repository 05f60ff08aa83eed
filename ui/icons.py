"""The page's icons: inline SVG on a 16-pixel grid, drawn in the current text colour."""

from backend.engine.status import EngineState

_SHAPES = {
    "ready": '<circle cx="8" cy="8" r="6.5" fill="currentColor"/><path d="M5 8.2l2.1 2.1L11.2 6" fill="none" stroke="var(--vp-surface)" stroke-width="1.6"/>',
    "starting": '<circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="2" stroke-dasharray="19 19"/>',
    "stopping": '<circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="2" stroke-dasharray="4 3"/>',
    "failed": '<circle cx="8" cy="8" r="6.5" fill="currentColor"/><path d="M5.6 5.6l4.8 4.8M10.4 5.6l-4.8 4.8" stroke="var(--vp-surface)" stroke-width="1.6"/>',
    "stopped": '<circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="1.6"/>',
    "unreachable": '<circle cx="8" cy="8" r="6.5" fill="currentColor"/><path d="M8 4.2v4.6M8 10.6v1.4" stroke="var(--vp-surface)" stroke-width="1.7"/>',
    "warning": '<path d="M8 1.8l6.6 12H1.4z" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round"/><path d="M8 6.2v3.6M8 11.2v1.3" stroke="currentColor" stroke-width="1.5"/>',
    "copy": '<rect x="5.5" y="5.5" width="8" height="8" rx="1.5" fill="none" stroke="currentColor" stroke-width="1.4"/><path d="M10.5 3.5v-1h-8v8h1" fill="none" stroke="currentColor" stroke-width="1.4"/>',
    "end": '<path d="M8 2v8M4.5 7L8 10.5 11.5 7M3 13.5h10" fill="none" stroke="currentColor" stroke-width="1.5"/>',
    "theme": '<circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="1.5"/><path d="M8 2a6 6 0 000 12z" fill="currentColor"/>',
    "mark": '<path d="M2 3l6 10.5L14 3" fill="none" stroke="currentColor" stroke-width="2.2" stroke-linejoin="round"/><path d="M5.6 3L8 7.2 10.4 3" fill="none" stroke="currentColor" stroke-width="1.4"/>',
}


def icon(name: str) -> str:
    """The SVG of an icon; hidden from screen readers, as a word always stands beside it."""
    return f'<svg class="vp-icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">{_SHAPES[name]}</svg>'


def state_icon(state: EngineState) -> str:
    """The icon of an engine state, each with a shape of its own."""
    return icon(state.value)

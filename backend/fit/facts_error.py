"""The error of a model whose files cannot tell what a memory estimate needs."""

from backend.errors import PanelError


class ModelFactsError(PanelError):
    """A file of the model is missing, broken or says something impossible; the message names file and key."""

"""From a bare machine to a running panel: bootstrap.py (any Python 3), then `python -m backend.setup` in the panel's environment.

Modules that work before the panel's packages exist use the standard library only: all here but model_install and __main__.
"""

"""From a bare machine to a running panel: bootstrap.py (any Python 3), then `python -m backend.setup` in the panel's environment.

Modules that work before the panel's packages exist use the standard library only: all but __main__ and embedded_model, which
runs in the engine's environment.

Everything that is not the panel's own environment goes into the state folder that VOLTA_HOME names. A test that needs the real
engine asks backend.environment.find_environment for it there; `VOLTA_HOME=FOLDER make setup` puts it there once.
"""

"""The exact command of a launch in the forms people use: shell, docker, compose, systemd."""

"""What holds for every test, wherever it is started from."""

import signal

# A shell that starts tests in the background ignores SIGINT for them, and their child processes inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

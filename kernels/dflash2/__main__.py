"""`python -m dflash2` is the `dflash2` command."""

import sys

from dflash2.cli import main

sys.exit(main())

"""How to install what only the timing model needs. dflash2 is on no package index, so hints name its folder."""

from __future__ import annotations

PREDICT_HINT = "in a checkout of the panel: pip install './kernels[predict]'"
VALIDATE_HINT = "in a checkout of the panel: pip install './kernels[validate]'"

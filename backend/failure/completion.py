"""The values of a failure made complete: spelled as flags are, joined to figures, and filled up from the launch. Pure."""

import re
from collections.abc import Mapping

from backend.failure.failure import LaunchContext


def completed(rule: str, values: Mapping[str, str], context: LaunchContext) -> dict[str, str]:
    """The values, with what the text leaves out and the launch itself knows."""
    complete = dict(values)
    if rule == "bad_flag_value" and "flag" in complete:
        complete["flag"] = re.sub(r"[_ ]", "-", complete["flag"]).lower()
    if rule == "kv_too_small":
        complete["figures"] = _comparison(complete, "needed", "available", " GiB") or _comparison(
            complete, "context", "limit", ""
        )
    if rule == "too_few_gpus":
        complete["figures"] = _comparison(complete, "gpus", "available", "")
    if rule == "bf16_unsupported":
        complete.setdefault("card", "GPU")
    if rule == "attention_unsupported_card":
        complete.setdefault("backend", "xFormers")  # its list of reasons does not name it
    if rule == "port_taken" and context.port is not None:
        complete.setdefault("port", str(context.port))
    if rule == "context_too_long" and "derived" in complete:
        lengths = [int(text) for text in (complete["derived"], complete.get("maximum", "")) if text.isdecimal()]
        complete["limit"] = str(max(lengths))
    if rule == "cuda_tools_too_new" and "target" in complete:
        complete["architecture"] = complete["target"]
    if rule == "unknown_architecture" and "architecture" in complete:
        complete["architecture"] = complete["architecture"].replace("'", "")
    return complete


def _comparison(values: Mapping[str, str], more: str, less: str, unit: str) -> str:
    """Two figures as a sentence holds them in any language: " (8.0 > 3.41 GiB)"; "" where one is not known."""
    return f" ({values[more]} > {values[less]}{unit})" if more in values and less in values else ""

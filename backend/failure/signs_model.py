"""Signs in the model's own files, in how they are found, and in what the machine lacks to read them.

Texts are those of vLLM 0.19.1, 0.32 and some older ones, transformers 4 and 5, huggingface_hub, safetensors, torch, Ray,
Docker and the operating system.
"""

from backend.failure.rule import Place, Sign

_HUB = "huggingface_hub/|modelscope/"  # whose calls reach the model hub and nothing else
_OF_WEIGHTS = "load_weights|load_model|pt_weights_iterator|multi_thread_pt_weights_iterator|load_state_dict"
_SHARD = r"[^'\"\s]{0,300}?(?:-\d{5}-of-\d{5}|\bmodel)\.(?:safetensors|bin)"

MODEL_SIGNS = (
    Sign(
        "wrong_path",
        r"^Repo id must (?:be in the form|use alphanumeric).{0,300}?: '(?P<path>[^']*)'",
        types=("HFValidationError",),
    ),
    Sign("wrong_path", r"^Incorrect path_or_model_id: '(?P<path>[^']{1,400})'", types=("OSError",)),
    Sign(
        "wrong_path",
        r"^(?P<path>\S{1,400}) is not a local folder and is not a valid model identifier listed on ",
        types=("OSError",),
        is_incidental=True,
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
    Sign(
        "no_network",
        r"^(?:\[Errno -[235]\] (?:Temporary failure in name resolution|Name or service not known|No address associated)"
        r"|\[Errno 1(?:01|13)\] (?:Network is unreachable|No route to host))",
        types=("ConnectError", "gaierror"),
        within=_HUB,
        is_incidental=True,
    ),
    Sign(
        "no_network",  # the paths are those of the hub's API
        r"HTTPS?ConnectionPool\(host='[^']{1,100}', port=\d{1,5}\): Max retries exceeded with url: "
        r"/(?:api/(?:v1/)?models/|[^\s/]{1,100}/[^\s/]{1,100}/resolve/).{0,400}?\(Caused by "
        r"(?:NameResolutionError|NewConnectionError|ConnectTimeoutError)\(",
        types=("ConnectionError", "ConnectTimeout", "MaxRetryError"),
        is_incidental=True,
    ),
    Sign("weights_corrupt", r"^Error while deserializing header: "),
    Sign(
        "weights_corrupt",
        r"",
        types=("MemoryError", "OverflowError", "JSONDecodeError", "UnicodeDecodeError"),
        within="parse_safetensors_file_metadata",
    ),
    Sign("weights_corrupt", r"^PytorchStreamReader failed (?:reading|locating) ", within=_OF_WEIGHTS),
    Sign("weights_corrupt", r"^invalid load key, '", types=("UnpicklingError",), within=_OF_WEIGHTS),
    Sign(  # the text file of Git LFS that stands for a file begins with "version"; torch reads no other than weights
        "weights_corrupt", r"^invalid load key, 'v'\.", types=("UnpicklingError",), within="serialization.py"
    ),
    Sign("weights_corrupt", r"^Unsupported operand 118$", types=("UnpicklingError",), within="serialization.py"),
    Sign("weights_missing", r"^Cannot find any model weights with `(?P<path>[^`]*)`"),
    Sign(
        "weights_missing",
        r"^(?:\[Errno 2\] )?No such file or directory: ['\"]?(?P<path>/" + _SHARD + r")['\"]?$",
        types=("FileNotFoundError",),
        is_incidental=True,
    ),
    Sign(
        "weights_missing",
        r"^\S{1,400} does not appear to have a file named (?P<path>" + _SHARD + r")\. Checkout",
        types=("OSError",),
        is_incidental=True,
    ),
    Sign("weights_missing", r"^Following weights were not initialized from checkpoint: \{(?P<path>[^{}]{1,1500})"),
    Sign("config_missing", r"ensure the presence of a 'config\.json'"),
    Sign(
        "config_missing",
        r"^\S{1,400} does not appear to have a file named config\.json\.",
        types=("OSError",),
        is_incidental=True,
    ),
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
        "unknown_architecture",
        r"^(?P<architecture>\S{1,100}) has no vLLM implementation and the Transformers implementation is not compatible",
        types=("ValueError",),
    ),
    Sign(
        "unknown_architecture",
        r"^The Transformers implementation of '?(?P<architecture>[^\s']{1,100})'? is not compatible with vLLM",
        types=("ValueError",),
    ),
    Sign(
        "shape_mismatch",
        r"^start \(-?\d+\) \+ length \(\d+\) exceeds dimension size \(\d+\)",
        types=("RuntimeError",),
        within="load_weights",
    ),
    Sign("shape_mismatch", r"^Attempted to load weight \(.{1,80}\) into parameter \(", types=("AssertionError",)),
    Sign("no_compiler", r"^(?:InvalidCxxCompiler: )?No working (?P<language>C\+\+) compiler found"),
    Sign("no_compiler", r"^Failed to find (?P<language>C) compiler\. Please specify via CC", types=("RuntimeError",)),
    Sign(
        "no_compiler",
        r"^(?P<language>CUDA)_HOME environment variable is not set\. Please set it to your CUDA install root",
        types=("OSError",),
        is_incidental=True,
    ),
    Sign(
        "no_compiler",
        r"^Could not find (?P<language>nvcc)(?:$| and default cuda_home='[^']{1,200}' doesn't exist)",
        types=("RuntimeError",),
        is_incidental=True,
    ),
    Sign(
        "no_compiler",
        r"^/bin/sh: (?:\d{1,4}: |line \d{1,4}: )?(?:/\S{0,200}/)?(?P<language>nvcc): (?:command )?not found$",
    ),
    Sign("host_memory", r"", types=("MemoryError",), outside="parse_safetensors_file_metadata"),
    Sign("host_memory", r"^Task was killed due to the node running low on memory", types=("OutOfMemoryError",)),
    Sign("host_memory", r"DefaultCPUAllocator: can't allocate memory: you tried to allocate \d+ bytes"),
    Sign("host_memory", r"^\[Errno 12\] Cannot allocate memory"),
    Sign("host_memory", r": Cannot allocate memory \(12\)"),
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
    Sign("disk_full", r"No space left on device \(os error 28\)", without="/dev/shm"),
    Sign(
        "permission_denied",
        r"^\[Errno 13\] Permission denied: b?['\"](?P<path>/[^'\"]*)['\"]",
        types=("PermissionError",),
        is_incidental=True,
    ),
    Sign(
        "permission_denied",
        r"^(?:docker: |ERROR: )?(?:Got |got )?permission denied while trying to connect to the [Dd]ocker (?:daemon socket|API) "
        r"at unix://(?P<path>/[^\s:]{1,200})",
        Place.NATIVE,
    ),
    Sign(
        "not_executable",
        r"^(?:docker: )?Error response from daemon: .{0,500}?"
        r"(?P<error>exec: \"[^\"]{1,200}\": (?:executable file not found in \$PATH|stat \S{1,200}: no such file or directory))",
        Place.NATIVE,
    ),
    Sign(
        "not_executable",
        r"^(?:\S{1,200}: (?:line \d{1,6}: )?)?"
        r"(?P<error>/[^\s:]{1,300}: (?:cannot execute: required file not found|bad interpreter: No such file or directory))$",
        Place.NATIVE,
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

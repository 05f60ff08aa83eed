"""Signs of what was asked wrongly: flags, their values, addresses, and settings that do not fit the model.

Texts are those of vLLM 0.19.1, 0.32 and some older ones, of SGLang, pydantic, argparse and Docker.
"""

from backend.failure.rule import Place, Sign

_OPTION = r"argument (?:-\w+/)?(?:-\w+, )?--(?P<flag>[\w.-]+)(?:/[^:]{0,80})?: "
_DOCKER = r"^(?:docker: )?Error response from daemon: "

ARGUMENT_SIGNS = (
    Sign("unknown_flag", r"^unrecognized arguments: (?P<flags>-{1,2}[A-Za-z].*)", Place.USAGE),
    Sign(
        "unknown_flag",
        r"^ambiguous option: (?P<flags>--[A-Za-z][\w.-]{0,100})(?:=\S{0,200})? could match --",
        Place.USAGE,
    ),
    Sign(
        "unknown_parser",
        r"^argument --(?P<flag>tool-call-parser|reasoning-parser): invalid choice: '?(?P<parser>[^' ]*)",
        Place.USAGE,
    ),
    Sign(
        "unknown_quantization",
        r"^argument --quantization(?:/-q)?: invalid choice: '?(?P<method>[^' ]*)",
        Place.USAGE,
    ),
    Sign(
        "unknown_attention_backend",
        r"^argument --attention-backend: .{0,200}?\bUnknown attention backend: '(?P<backend>[^']*)'",
        Place.USAGE,
    ),
    Sign(
        "bad_flag_value",
        _OPTION + r"(?:invalid choice|invalid [\w.<>' ]{1,60} value): '?(?P<value>[^' ]*)",
        Place.USAGE,
    ),
    Sign("bad_flag_value", _OPTION + r"(?P<value>expected (?:one|at least one|\d+) arguments?)", Place.USAGE),
    Sign(
        "bad_flag_value",
        _OPTION + r"Value (?P<value>\S{1,100}) cannot be converted to ",
        Place.USAGE,
    ),
    Sign(
        "port_taken",
        r"^\[Errno 98\] (?:Address already in use"
        r"|[Ee]rror while attempting to bind on address \('[^']*', (?P<port>\d+)[^)]*\): \[?.{0,12}address already in use)",
        types=("OSError",),
        is_of_server=True,
    ),
    Sign(
        "port_taken",
        r"^\[Errno 98\] error while attempting to bind on address \('[^']*', (?P<port>\d+)[^)]*\): .{0,12}address already in use",
        Place.NATIVE,
    ),
    Sign(
        "port_taken",
        _DOCKER + r".{0,500}?\bBind for \S{1,60}:(?P<port>\d{1,5}) failed: port is already allocated",
        Place.NATIVE,
    ),
    Sign(
        "port_taken",
        _DOCKER + r".{0,500}?\blisten tcp[46]? \S{1,60}:(?P<port>\d{1,5}): bind: address already in use",
        Place.NATIVE,
    ),
    Sign(
        "context_too_long",
        r"^User-specified max_model_len \((?P<context>\d+)\) is greater than the derived max_model_len "
        r"\(\w+=(?P<derived>\d+)(?:\.\d*)? or model_max_length=(?P<maximum>\w+)",
    ),
    Sign(
        "context_too_long",
        r"^(?:[^:]{1,80}: )?User-specified context_length \((?P<context>\d+)\) is greater than the derived context_length "
        r"\((?P<derived>\d+)\)",
        types=("ValueError",),
    ),
    Sign(
        "kv_too_small",
        r"^The model's max seq len \((?P<context>\d+)\) is larger than the maximum number of tokens that can be stored in "
        r"KV cache \((?P<limit>\d+)\)",
    ),
    Sign(
        "kv_too_small",
        r"^To serve at least one request with the models?'s max seq len \((?P<context>\d+)\), "
        r"\(?(?P<needed>[\d.]+) GiB KV cache is needed, which is larger than the available KV cache memory "
        r"\((?P<available>[\d.]+) GiB\)(?:.{0,80}estimated maximum model length is (?P<limit>\d+))?",
    ),
    Sign("kv_no_room", r"^No available memory for the cache blocks\."),
    Sign("kv_no_room", r"^Not enough memory\. Please try to increase --mem-fraction-static"),
    Sign(
        "kv_too_big",
        r"^Available memory on node \d+ \((?P<available>[\d.]+)/(?P<total>[\d.]+) GiB\) on kv cache allocation "
        r"is less than requested memory for kv \((?P<requested>[\d.]+)",
    ),
    Sign(
        "unknown_quantization",
        r"^Unknown quantization method: (?P<method>[\w.-]+)\. Must be one of",
    ),
    Sign(
        "quantization_mismatch",
        r"^Quantization method specified in the model config \((?P<found>[^)]*)\) does not match the quantization "
        r"method specified in the `quantization` argument \((?P<asked>[^)]*)\)",
    ),
    Sign("quantization_mismatch", r"^Cannot find the config file for (?P<asked>[\w.-]+)(?: \[type=|$|\.)"),
    Sign(
        "tensor_parallel_indivisible",
        r"^Total number of attention heads \((?P<heads>\d+)\) must be divisible by tensor parallel size "
        r"\((?P<gpus>\d+)\)",
    ),
    Sign(
        "too_few_gpus",
        r"^World size \((?P<gpus>\d+)\) is larger than the number of available GPUs \((?P<available>\d+)\)",
    ),
    Sign(
        "too_few_gpus",
        r"^local_world_size \((?P<gpus>\d+)\) must be less than or equal to the number of visible devices "
        r"\((?P<available>\d+)\)",
    ),
    Sign("unknown_attention_backend", r"^Unknown attention backend: '(?P<backend>[^']*)'\. Valid options are:"),
    Sign(
        "unknown_parser",
        r"^'?\"?invalid (?P<kind>tool call|reasoning) parser: (?P<parser>\S{1,100}) \(chose from",
        types=("KeyError",),
    ),
    Sign(
        "unknown_parser",
        r"^[\"']?(?P<kind>Tool|Reasoning) parser \\?'(?P<parser>[^'\\]*)\\?' not found\.",
        types=("KeyError",),
    ),
    Sign("speculation_incomplete", r"^num_speculative_tokens must be provided with speculative model"),
    Sign("speculation_incomplete", r"^num_speculative_tokens was provided but without speculative model"),
    Sign(
        "bad_flag_value",
        r"^(?P<flag>max_num_batched_tokens) \((?P<value>\d+)\) is smaller than max_model_len \((?P<least>\d+)\)",
    ),
    Sign(
        "bad_flag_value",
        r"^[Tt]he supplied (?P<flag>chat template) (?:string )?\((?P<value>[^)]{1,400})\) "
        r"(?:appears path-like, but doesn't exist|looks like a file path, but it failed to be opened)",
    ),
    Sign(
        "bad_flag_value",
        r"^(?P<flag>GPU memory utilization) must be less than 1\.0\. Got (?P<value>-?\d{1,9}(?:\.\d{1,9})?)",
    ),
    Sign(
        "bad_flag_value",
        r"^(?P<flag>max_num_batched_tokens) \((?P<value>\d+)\) must be greater than or equal to max_num_seqs \(\d+\)",
    ),
    Sign(
        "bad_flag_value",
        r"^(?P<flag>[\w.-]{1,80}): Input should be [^\[]{1,400}\[type=(?:less|greater|literal|int|float|bool|enum|string)\w{0,30}, "
        r"input_value=(?P<value>[^,]{1,100}),",
        types=("ValidationError",),
    ),
)

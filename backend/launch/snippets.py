"""Code a person can paste to use a running engine from a program of their own."""

import json

from backend.launch.plan import LaunchSpec

_QUESTION = "What is a GPU?"
MAX_TOKENS = 256  # a small model may ramble to the end of its context
KEY_VARIABLE = "VOLTA_ENGINE_KEY"  # the key itself is never shown


def python_snippet(spec: LaunchSpec) -> str:
    """A streaming chat through the openai package."""
    key = f'os.environ["{KEY_VARIABLE}"]' if spec.secrets else '"none"'
    return "\n".join(
        (
            *(["import os", ""] if spec.secrets else []),
            "from openai import OpenAI",
            "",
            f'client = OpenAI(base_url="{spec.base_url}/v1", api_key={key})',
            "answer = client.chat.completions.create(",
            f"    model={json.dumps(spec.served_model)},",
            f'    messages=[{{"role": "user", "content": {json.dumps(_QUESTION)}}}],',
            f"    max_tokens={MAX_TOKENS},",
            "    stream=True,",
            ")",
            "for chunk in answer:",
            "    if chunk.choices:",
            '        print(chunk.choices[0].delta.content or "", end="", flush=True)',
        )
    )


def curl_snippet(spec: LaunchSpec) -> str:
    """The same question by curl."""
    messages = [{"role": "user", "content": _QUESTION}]
    body = json.dumps({"model": spec.served_model, "messages": messages, "max_tokens": MAX_TOKENS})
    key = f' \\\n  -H "Authorization: Bearer ${KEY_VARIABLE}"' if spec.secrets else ""
    return f"curl {spec.base_url}/v1/chat/completions \\\n  -H 'Content-Type: application/json'{key} \\\n  -d '{body}'"

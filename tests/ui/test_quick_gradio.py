"""The quick import: it still does what it is for, and gradio works after it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
    ).stdout


def test_no_stub_is_parsed_or_written() -> None:
    code = """
import sys
opened = []
sys.addaudithook(lambda event, args: opened.append(args[0]) if event == "open" and str(args[0]).endswith(".pyi") else None)
import ui.quick_gradio
print(len(opened))
"""
    assert run(code).strip() == "0"


def test_components_work_and_inspect_is_itself_again() -> None:
    code = (
        "import ui.quick_gradio, inspect, gradio as gr\n"
        "with gr.Blocks() as page: box = gr.Textbox(); button = gr.Button(); button.click(lambda words: words, box, box)\n"
        "print(inspect.getfile(gr.Textbox).endswith('textbox.py'), len(page.config['dependencies']))"
    )
    assert run(code).split() == ["True", "1"]

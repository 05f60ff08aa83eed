"""The smallest Gradio page, served as the panel serves its own: what the framework takes by itself."""

import sys

import ui.quick_gradio  # noqa: F401  before gradio

# isort: split
import gradio as gr
import uvicorn
from fastapi import FastAPI

from app import slow_the_queue


def main() -> None:
    with gr.Blocks(analytics_enabled=False) as page:
        gr.Textbox(label="nothing")
    slow_the_queue(page)
    uvicorn.run(
        gr.mount_gradio_app(FastAPI(), page, path="/"), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning"
    )


if __name__ == "__main__":
    main()

"""The page: components, thin handlers, rendering. The only importer of gradio besides app.py."""

"""Every word of the page, one module a page; ui.strings joins them and looks them up."""

"""The command's inner parts: from settings to a folder of results. Nothing else in the package imports them."""

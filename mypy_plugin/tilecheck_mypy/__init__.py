"""The mypy adapter: `plugins = tilecheck` in mypy's configuration.

It asks mypy what names and types mean, hands the file to the core and reports what the core says. No analysis lives
here: delete this folder and the linter still finds the same errors, as far as they can be seen without types.
"""

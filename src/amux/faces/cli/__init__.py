"""The command line.

`app` runs one command line and turns every failure into an error message and an exit code.
`commands` holds the table of commands and the modules that run them. `parser` builds argparse
parsers that import a command's module only when the command is typed. stdout carries data, stderr
carries messages. No module here imports the client, msgspec or rich before a command needs it.
"""

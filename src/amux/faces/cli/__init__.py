"""The command line.

`app` runs one command line and turns every failure into one sentence and an exit code. `commands`
holds the table of commands and one module per command. `parser` builds argparse parsers that load a
command's module only when its words are typed. stdout carries data, stderr carries messages. No
module here imports the client, msgspec or rich before a command needs it.
"""

"""The command line.

`app` runs one command line and turns every failure into one sentence and an exit code; `commands`
is the table of commands; `parser` builds argparse parsers that load a command's module only when
its words are typed; `cmd_*` are the commands. stdout is data, stderr is talk. Nothing here imports
the client, msgspec or rich before a command needs it.
"""

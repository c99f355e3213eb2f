"""The session log of Pi, which oh-my-pi and OpenClaw inherited: lines, tree, usage, messages."""

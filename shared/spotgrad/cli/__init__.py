"""What people type: one module a command, JSON for scripts, colours for people."""

"""What people type: ``spotgrad ...``; one module a command, JSON for scripts, colours for people."""

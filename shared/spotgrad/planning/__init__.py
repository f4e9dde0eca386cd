"""What happens next: which subtasks go out, when an epoch closes, when a job ends. Pure."""

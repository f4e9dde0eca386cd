"""Built-in tasks, named in a job file as ``worker_image.tasks.<module>:<callable>``."""

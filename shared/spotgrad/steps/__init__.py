"""The verbs of the pipeline, each as gather -> decide -> apply over ports. No vendor in sight."""

"""The stack for users of the CDK: one construct over the same template.yaml, and an app around it.

Not a second description of the stack: what is deployed stands in template.yaml and
infra/worker_fleet.yaml alone. It runs in a virtual environment of its own (``make deploy-tools``).
"""

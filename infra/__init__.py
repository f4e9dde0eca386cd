"""Deployments of the product: the stacks, and one laptop (``infra.local``)."""

"""The papers again: real training, the product's merging, virtual time or the local stack."""

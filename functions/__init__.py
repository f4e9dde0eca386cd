"""The three Lambda functions: parse -> step -> respond. Torch-free, each at most 60 lines."""

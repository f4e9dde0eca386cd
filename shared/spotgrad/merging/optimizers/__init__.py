"""Optimizer steps by a mean gradient, as block functions of the kernel: SGD, AdamW, LAMB.

Pure numpy, no torch; state (momentum, moments) comes and goes as objects beside the model.
"""

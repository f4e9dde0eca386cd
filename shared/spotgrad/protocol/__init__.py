"""What travels between the deployables: pure data, its keys, its envelopes, its bytes.

Nothing here does I/O, reads a clock or draws a random number.
"""

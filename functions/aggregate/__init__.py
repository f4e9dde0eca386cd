"""The deployable ``functions.aggregate``; its handler is ``app.handler``."""

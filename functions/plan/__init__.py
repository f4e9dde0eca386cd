"""The deployable ``functions.plan``; its handler is ``app.handler``."""

"""The deployable ``functions.reconcile``; its handler is ``app.handler``."""

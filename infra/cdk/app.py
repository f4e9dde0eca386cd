"""The app that ``cdk`` runs: one stack with one pipeline, after ``sam build``.

Parameters are given as with sam: ``cdk deploy --parameters WorkerImage=...``.
"""

from aws_cdk import App, Stack

from infra.cdk.pipeline import SpotgradPipeline


def make_app() -> App:
    """Return the app. No account and no region: it goes where the credentials point."""
    app = App()
    stack = Stack(app, app.node.try_get_context("stack") or "spotgrad")
    SpotgradPipeline(stack, "Pipeline")
    return app


if __name__ == "__main__":
    make_app().synth()

"""The Spot worker: receive -> train -> upload -> acknowledge. The only torch in the project."""

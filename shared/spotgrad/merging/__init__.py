"""How a result enters the model: rules decide scalars, one kernel applies them. Pure numpy."""

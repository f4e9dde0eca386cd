"""``spotgrad deploy`` and ``spotgrad destroy``: sam with the right words, and care for the data."""

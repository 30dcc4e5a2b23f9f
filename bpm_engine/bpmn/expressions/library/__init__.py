"""The fixed function library: the only things an expression can call."""

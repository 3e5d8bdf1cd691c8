"""The runtime of one call: context, engine choice, dispatch cache, operands, native call, call log."""

"""Abstract interpretation of bytecode: which instructions of a function may reach memory past the trace."""

"""The ctypes binding: ABI table, loader, engine status, hardware, result allocator, calibration."""

"""Files of the library itself: atomic writes, temporary files, checkpoints."""

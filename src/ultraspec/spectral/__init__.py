"""U-SPEC, section 3.1 of the paper, phase by phase."""

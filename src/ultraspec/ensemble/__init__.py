"""U-SENC, section 3.2 of the paper."""

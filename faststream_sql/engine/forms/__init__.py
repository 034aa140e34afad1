"""The forms in which a claimed row is held."""

"""Model files: one small file per fitted model, without pickle and without code."""

from ultraspec.persistence.model_files import ModelFileError, ModelFileNotFoundError, load, save

__all__ = ["ModelFileError", "ModelFileNotFoundError", "load", "save"]

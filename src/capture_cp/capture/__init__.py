"""The method: calibrated predictors, their regions and their files."""

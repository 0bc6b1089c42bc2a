"""The method: calibrated predictors, their regions, their files."""

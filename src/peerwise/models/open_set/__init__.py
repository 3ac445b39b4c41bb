"""Nets that can say "I do not know": made-up outliers, training with them, and weights that are left out."""

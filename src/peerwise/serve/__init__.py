"""The prediction service and its page."""

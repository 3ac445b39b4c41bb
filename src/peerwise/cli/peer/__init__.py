"""The verbs of a site in a real federation, one file each."""

"""What both planes agree on, byte for byte."""

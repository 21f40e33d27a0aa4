"""Kinds of channels, one file each, named as the kind's value; none knows another."""

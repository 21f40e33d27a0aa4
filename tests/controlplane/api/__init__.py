"""Tests of controlplane.api."""

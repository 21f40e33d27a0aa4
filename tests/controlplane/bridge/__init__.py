"""Tests of controlplane.bridge."""

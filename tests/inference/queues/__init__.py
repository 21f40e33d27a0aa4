"""Tests of inference.queues."""

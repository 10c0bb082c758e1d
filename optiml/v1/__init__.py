"""Modules generated from protos/optiml/v1 by `make protos`; do not edit."""

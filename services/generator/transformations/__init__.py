"""The transformations, one file each: `propose(context)` returns edits or raises `NotApplicable`."""

"""JudgeService: names bottlenecks and holds edits to their claims."""

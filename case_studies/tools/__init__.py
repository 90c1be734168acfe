"""What the case studies share: data, random streams, chains, a resumable grid, and the summaries that articles print.

A study imports the package and these tools, never another study; the tools import no study.
"""

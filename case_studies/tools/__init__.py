"""Tools that the case studies share: data, random streams, chains, a resumable grid, and summaries as in articles.

A study imports the package and these tools, never another study; the tools import no study.
"""

"""The recent past of every series, in memory of fixed size, and the aggregates that reports and training ask of it.

`cache` says what a metric cache is, `embedded` is the one decisions are made from, `aggregation` is the arithmetic.
"""

"""Hours of churn, edits and kills on a control plane of our own, to see whether memory stays flat and Mid right."""

"""Hours of churn, edits and kills on a separate control plane, to check that memory stays flat and Mid right."""

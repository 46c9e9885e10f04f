"""End-to-end cases, grouped by the component under test."""

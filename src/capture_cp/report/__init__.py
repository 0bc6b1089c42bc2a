"""Output of results: tables, charts, pages and videos."""

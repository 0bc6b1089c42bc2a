"""How results are shown: tables, charts, pages, films."""

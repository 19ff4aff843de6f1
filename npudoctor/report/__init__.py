"""A report as text, JSON or Markdown: each module has `render(report) -> str` and knows nothing but the findings."""

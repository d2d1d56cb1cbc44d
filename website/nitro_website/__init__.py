"""The site of the documentation: pages that mkdocs builds beside those of docs/."""

"""The pages of the dashboard: records become files of a static site. Pure."""

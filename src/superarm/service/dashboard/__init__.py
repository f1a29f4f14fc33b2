"""A web page that shows what a running service does and believes."""

"""RESOURCES: the ordered table of what is served; discovery, routes and authz all read it."""

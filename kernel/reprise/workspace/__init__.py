"""Files: manifests (pure), the notebook's folder on the host, transfer to and from sandboxes."""

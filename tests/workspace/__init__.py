"""Files: manifests, the notebook's folder, transfer and sync."""

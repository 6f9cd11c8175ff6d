"""The REST API of Reprise below /reprise/api: described by OpenAPI, guarded by Jupyter's own."""

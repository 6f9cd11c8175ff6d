"""The model behind the Messages API: asked, waited for, read strictly, counted and paid for."""

from reprise_server.agent.model.asking import ApiModel, open_model

__all__ = ["ApiModel", "open_model"]

"""What training adds to a network: the equations of ADL, AFAT and STL, each a pure function."""

from robustvit.methods.attention_diversification import attention_diversification
from robustvit.methods.chunked_diversification import chunked_attention_diversification

__all__ = ["attention_diversification", "chunked_attention_diversification"]

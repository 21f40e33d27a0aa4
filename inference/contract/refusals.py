"""What callers are told where no plan can be made: the words of a gateway, and of Explain."""

MODEL_NOT_FOUND = "The model does not exist, or this API key may not use it."
NO_CAPACITY = "No worker of this model is ready."
SWITCHED_OFF = "This has been switched off."
TARGET_NOT_FOUND = "`x-headworks-target` names no target of the route."
TARGETS_SWITCHED_OFF = "All that could serve this model has been switched off."

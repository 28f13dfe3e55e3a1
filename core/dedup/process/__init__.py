"""What all our programs share: they end with their parent, and they explain errors of the machine."""

"""The nouns: frozen, slotted, keyword-only records and enums. Standard library only, no I/O."""

"""Text: tokenizers, chat templates, and whether two vocabularies are one."""

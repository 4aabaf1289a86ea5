"""Nouns and results → text. Nothing here decides anything: it imports only the nouns and the units."""

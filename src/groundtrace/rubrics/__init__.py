"""The rubrics: what is asked, how a reply is read and what follows from it; each a module, its prompt beside it."""

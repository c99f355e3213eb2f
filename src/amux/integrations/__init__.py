"""Agent frameworks that keep their sessions in the store; each is imported only when it is used."""

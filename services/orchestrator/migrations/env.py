"""Alembic's entry: runs the migrations on the connection, and in the transaction, that `schema.migrate` hands over."""

from alembic import context

from services.orchestrator.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()

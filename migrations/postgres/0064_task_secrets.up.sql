-- A sealed secret of the arguments of a task, as the token of an API; NULL: none, or the task has ended.
ALTER TABLE tasks ADD secret BYTEA;

DROP TABLE task_chunks;
DROP TABLE tasks;

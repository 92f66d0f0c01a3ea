DROP TABLE parity_rows;

package pgscope

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// rows are the rows of a statement in a batch.
type rows struct {
	pgx.Rows
	batch    pgx.BatchResults // nil while results of it follow
	columns  []pgconn.FieldDescription
	hasFirst bool // the first row was read and not returned
}

// nextRows returns the rows of the next statement. An error of the statement is one of the call.
func nextRows(r pgx.BatchResults, isLast bool) (*rows, error) {
	found, err := r.Query()
	if err != nil {
		return nil, closeResults(r, err)
	}
	own := &rows{Rows: found, columns: found.FieldDescriptions()}
	own.hasFirst = found.Next()
	if err := found.Err(); err != nil {
		return nil, closeResults(r, err)
	}
	if isLast {
		own.batch = r
	}
	return own, nil
}

// Columns implements driver.Rows.
func (r *rows) Columns() []string {
	names := make([]string, len(r.columns))
	for i, c := range r.columns {
		names[i] = c.Name
	}
	return names
}

// Next implements driver.Rows.
func (r *rows) Next(row []driver.Value) error {
	if !r.hasFirst && !r.Rows.Next() {
		if err := r.Close(); err != nil { // also one of the commit
			return err
		}
		return io.EOF
	}
	r.hasFirst = false
	types := r.Conn().TypeMap()
	for i, encoded := range r.RawValues() {
		c := &r.columns[i]
		t, ok := types.TypeForOID(c.DataTypeOID)
		if !ok {
			t, _ = types.TypeForOID(pgtype.TextOID)
		}
		var err error
		if row[i], err = t.Codec.DecodeDatabaseSQLValue(types, c.DataTypeOID, c.Format, encoded); err != nil {
			return fmt.Errorf("decoding the column %s: %w", c.Name, err)
		}
	}
	return nil
}

// Close implements driver.Rows.
func (r *rows) Close() error {
	r.Rows.Close()
	if r.batch == nil {
		return r.Err()
	}
	return errors.Join(r.Err(), r.batch.Close())
}

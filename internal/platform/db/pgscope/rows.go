package pgscope

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// pipelineRows are the rows of a query in a pipeline.
type pipelineRows struct {
	pgx.Rows
	pipeline *pgconn.Pipeline // nil while statements of it follow, or once it is closed
	columns  []string
	decoders []decoder
	hasFirst bool // the first row was read and not returned
}

// decoder returns the value of a column as database/sql knows it.
type decoder func(encoded []byte) (driver.Value, error)

func (r *pipelineRows) describe(m *pgtype.Map) {
	for _, f := range r.FieldDescriptions() {
		r.columns, r.decoders = append(r.columns, f.Name), append(r.decoders, decoderOf(m, f))
	}
}

func decoderOf(m *pgtype.Map, f pgconn.FieldDescription) decoder {
	switch f.DataTypeOID {
	case pgtype.BoolOID:
		return decodeAs[bool](m, f)
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID:
		return decodeAs[int64](m, f)
	case pgtype.Float4OID, pgtype.Float8OID:
		return decodeAs[float64](m, f)
	case pgtype.ByteaOID, pgtype.JSONOID, pgtype.JSONBOID:
		return decodeAs[[]byte](m, f)
	case pgtype.DateOID:
		return decodeValue[pgtype.Date](m, f)
	case pgtype.TimestampOID:
		return decodeValue[pgtype.Timestamp](m, f)
	case pgtype.TimestamptzOID:
		return decodeValue[pgtype.Timestamptz](m, f)
	case pgtype.OIDOID, pgtype.XIDOID, pgtype.CIDOID:
		return decodeValue[pgtype.Uint32](m, f)
	}
	return decodeAs[string](m, f)
}

// decodeAs decodes a type that is a driver.Value.
func decodeAs[T any](m *pgtype.Map, f pgconn.FieldDescription) decoder {
	plan := m.PlanScan(f.DataTypeOID, f.Format, new(T))
	return func(encoded []byte) (driver.Value, error) {
		var value T
		err := plan.Scan(encoded, &value)
		return value, err
	}
}

// decodeValue decodes a type that has a driver.Value.
func decodeValue[T driver.Valuer](m *pgtype.Map, f pgconn.FieldDescription) decoder {
	plan := m.PlanScan(f.DataTypeOID, f.Format, new(T))
	return func(encoded []byte) (driver.Value, error) {
		var value T
		if err := plan.Scan(encoded, &value); err != nil {
			return nil, err
		}
		return value.Value()
	}
}

// Columns implements driver.Rows.
func (r *pipelineRows) Columns() []string { return slices.Clone(r.columns) }

// Next implements driver.Rows.
func (r *pipelineRows) Next(row []driver.Value) error {
	if !r.hasFirst && !r.Rows.Next() {
		if err := r.Close(); err != nil { // also one of the commit
			return err
		}
		return io.EOF
	}
	r.hasFirst = false
	for i, encoded := range r.RawValues() {
		row[i] = nil
		if encoded == nil {
			continue
		}
		var err error
		if row[i], err = r.decoders[i](encoded); err != nil {
			return fmt.Errorf("decoding the column %s: %w", r.columns[i], err)
		}
	}
	return nil
}

// Close implements driver.Rows.
func (r *pipelineRows) Close() error {
	r.Rows.Close()
	if r.pipeline == nil {
		return r.Err()
	}
	err := errors.Join(r.Err(), r.pipeline.Close())
	r.pipeline = nil
	return err
}

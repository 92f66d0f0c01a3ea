package rig

import (
	"context"
	"database/sql"
	"reflect"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Rows reads all rows of a query into structs, whose fields take the columns in order.
func Rows[T any](ctx context.Context, d *sql.DB, query string, args ...any) (all []T, err error) {
	rows, err := d.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var one T
		value := reflect.ValueOf(&one).Elem()
		fields := make([]any, value.NumField())
		for i := range fields {
			fields[i] = value.Field(i).Addr().Interface()
		}
		if err := rows.Scan(fields...); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// InBatches calls do for batches of a size, some callers at a time, until all are done or one has
// failed.
func InBatches(ctx context.Context, total, size, callers int, do func(ctx context.Context, from, to int) error) error {
	var next atomic.Int64
	all, ctx := errgroup.WithContext(ctx)
	for range callers {
		all.Go(func() error {
			for {
				from := int(next.Add(int64(size))) - size
				if from >= total {
					return nil
				}
				if err := do(ctx, from, min(from+size, total)); err != nil {
					return err
				}
			}
		})
	}
	return all.Wait()
}

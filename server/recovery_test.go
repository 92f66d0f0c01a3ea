package main

import (
	"errors"
	"net"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// countClicks returns the number of stored clicks of a link, or of all links.
func (b backend) countClicks(t *testing.T, linkID string) (clicks int64) {
	t.Helper()
	d := must.Value(b.open())(t)
	defer d.Close()
	q := d.NewSelect().Table("clicks").ColumnExpr("count(*)")
	if linkID != "" {
		q.Where("link_id = ?", linkID)
	}
	err := q.Scan(db.AsSystem(t.Context()), &clicks)
	for tries := 0; tries < 5 && isTimeout(err); tries++ { // of a connection to the database of an overloaded machine
		err = q.Scan(db.AsSystem(t.Context()), &clicks)
	}
	must.NoError(t, err)
	return clicks
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

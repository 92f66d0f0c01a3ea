package upkeep

import (
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
)

// machineColumns are the columns that setMachine may write: no user changes them. Transitions and
// checks of destinations write events of some changes.
var machineColumns = []string{
	"started_at", "expired_at", "ended_at", "destination_status", "last_checked_at", "check_at",
	"check_failures", "reported_state",
}

// assignment is a column and its new value.
type assignment struct {
	column string
	value  any
}

// setMachine prepares an update of machine-owned columns; the caller adds the condition.
func (s *Store) setMachine(assignments ...assignment) *bun.UpdateQuery {
	for _, c := range assignments {
		if !slices.Contains(machineColumns, c.column) {
			panic("upkeep: " + c.column + " is no machine-owned column")
		}
	}
	return setColumns(s.DB.NewUpdate().Model((*link.Link)(nil)), assignments)
}

// setColumns adds the assignments to an update.
func setColumns(q *bun.UpdateQuery, assignments []assignment) *bun.UpdateQuery {
	for _, c := range assignments {
		q = q.Set("? = ?", bun.Ident(c.column), c.value)
	}
	return q
}

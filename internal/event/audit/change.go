package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
)

// maxValue is the size of the largest value in a FieldChange, in bytes. The version of the link has
// the whole value.
const maxValue = 4 << 10

// FieldChange has the values of a field before and after a change, as JSON.
type FieldChange struct {
	// Field is the name in the API.
	Field string `json:"field"`
	// Before and After are nil if they are omitted.
	Before *string `json:"before,omitempty"`
	After  *string `json:"after,omitempty"`
	// Omitted means that a value is secret, or longer than 4 KiB.
	Omitted bool `json:"omitted,omitempty"`
}

// Field is a field of an object with its value.
type Field struct {
	Name  string
	Value any
}

// Compare returns the fields whose values differ. Both lists have the same names in the same order.
func Compare(before, after []Field) (changes []*FieldChange) {
	for i, field := range after {
		if from, to := encode(before[i].Value), encode(field.Value); !bytes.Equal(from, to) {
			changes = append(changes, newFieldChange(field.Name, from, to))
		}
	}
	return changes
}

// Pick returns the fields with the names, also those whose values are equal. Both lists are as
// those of Compare.
func Pick(before, after []Field, names ...string) []*FieldChange {
	changes := []*FieldChange{}
	for i, field := range after {
		if slices.Contains(names, field.Name) {
			changes = append(changes, newFieldChange(field.Name, encode(before[i].Value), encode(field.Value)))
		}
	}
	return changes
}

func newFieldChange(name string, from, to []byte) *FieldChange {
	change := &FieldChange{Field: name, Omitted: len(from) > maxValue || len(to) > maxValue}
	if !change.Omitted {
		change.Before, change.After = new(string(from)), new(string(to))
	}
	return change
}

// encode returns plain data as JSON.
func encode(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // only a type that JSON does not know can do this
	}
	return text
}

// FieldChanges returns the changed fields of the event; none for a purged link.
func (e *Event) FieldChanges() (changes []*FieldChange, err error) {
	changes = []*FieldChange{}
	if e.Changes == nil {
		return changes, nil
	}
	err = json.Unmarshal([]byte(*e.Changes), &changes)
	return changes, err
}

// WithOperation adds the bulk call that the change was part of, if any.
func (e *Event) WithOperation(operationID *string) *Event {
	e.OperationID = operationID
	return e
}

// WithEffectiveAt sets when the change took effect, if that is not when it is recorded.
func (e *Event) WithEffectiveAt(at time.Time) *Event {
	e.EffectiveAt = new(db.Instant(at))
	return e
}

// At returns when the change took effect. The order of events is that of their commits, not of At.
func (e *Event) At() time.Time { return *cmp.Or(e.EffectiveAt, &e.CreatedAt) }

// WithVersion adds the version of the link after the change, and the changed fields.
func (e *Event) WithVersion(number int, changes []*FieldChange) *Event {
	e.Version = &number
	return e.WithChanges(changes)
}

// WithURL adds the destination that the event is about.
func (e *Event) WithURL(url string) *Event {
	e.URL = &url
	return e
}

// WithChanges adds the changed fields.
func (e *Event) WithChanges(changes []*FieldChange) *Event {
	if len(changes) > 0 {
		e.Changes = new(string(encode(changes)))
	}
	return e
}

// OfVersions returns the events about links that name a version. The history of a link that was
// purged starts again: events before that are left out.
func OfVersions(ctx context.Context, conn bun.IDB, linkIDs ...string) (events []*Event, err error) {
	purged := conn.NewSelect().TableExpr("audit_events AS purged").ColumnExpr("1").
		Where("purged.target_id = event.target_id").Where("purged.action = ?", LinkPurged).
		Where("(purged.xid, purged.seq) > (event.xid, event.seq)")
	err = conn.NewSelect().Model(&events).Where("target_id IN (?)", bun.In(linkIDs)).Where("version IS NOT NULL").
		Where("NOT EXISTS (?)", purged).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the events of versions: %w", err)
	}
	return events, nil
}

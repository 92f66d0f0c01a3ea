package linkfield

import (
	"reflect"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// Field is a field of links: how it is read, set and compared. Code that handles all fields loops
// over Fields.
type Field struct {
	// Name is that of the API.
	Name string
	// Restricts means that the field limits which visitors receive the destination, or when, IsPlanned
	// that a scheduled change may set it.
	Restricts, IsPlanned bool
	// Text returns where a field of text has its value; nil for others.
	Text func(*Values) **string
	// Value returns the value as versions and events show it.
	Value func(*Values) any
	// IsSame reports whether two links have the same value.
	IsSame func(a, b *Values) bool
	// IsSet is whether a change sets the field, and IsNull reports whether it sets it to no value.
	IsSet  func(*Change) *bool
	IsNull func(*Change) bool
	// Decode has a change set the field to what decode reads.
	Decode func(c *Change, decode func(to any) error) error
	// Set checks and sets the value of a change, if it is set. It returns InvalidInput. Package link
	// sets URLs and routings, which depend on more.
	Set func(*Values, *Change) error
	// Normalize gives a change that sets the field the checked value.
	Normalize func(*Change, *Values)
}

// field defines a field whose values check returns.
func field[T, V any](
	name string, value func(*Values) *V, edit func(*Change) *optional.Edit[T], check func(T) (V, error),
) Field {
	f := setByLink(name, value, edit)
	f.Set = func(v *Values, c *Change) error {
		if !edit(c).Set {
			return nil
		}
		checked, err := check(edit(c).To)
		if err == nil {
			*value(v) = checked
		}
		return errs.Under(err, name)
	}
	return f
}

// setByLink defines a field that package link sets.
func setByLink[T, V any](name string, value func(*Values) *V, edit func(*Change) *optional.Edit[T]) Field {
	text, _ := any(value).(func(*Values) **string)
	return Field{
		Name:   name,
		Text:   text,
		Value:  func(v *Values) any { return *value(v) },
		IsSame: func(a, b *Values) bool { return isSame(*value(a), *value(b)) },
		IsSet:  func(c *Change) *bool { return &edit(c).Set },
		IsNull: func(c *Change) bool { return edit(c).Set && isNil(edit(c).To) },
		Decode: func(c *Change, decode func(to any) error) error {
			edit(c).Set = true
			return decode(&edit(c).To)
		},
		Set: func(*Values, *Change) error { return nil },
		Normalize: func(c *Change, v *Values) {
			if to, ok := any(*value(v)).(T); ok && edit(c).Set {
				edit(c).To = to
			}
		},
	}
}

func planned(f Field) Field {
	f.IsPlanned = true
	return f
}

func restricting(f Field) Field {
	f.Restricts = true
	return f
}

func shown(f Field, value func(*Values) any) Field {
	f.Value = value
	return f
}

func unchecked[T any](value T) (T, error) { return value, nil }

func isNil(value any) bool {
	v := reflect.ValueOf(value)
	return (v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice) && v.IsNil()
}

func isSame(a, b any) bool {
	if at, ok := a.(*time.Time); ok {
		return SameInstant(at, b.(*time.Time))
	}
	return reflect.DeepEqual(a, b)
}

// SameInstant reports whether two instants are equal in the precision of the database; nil is none.
func SameInstant(a, b *time.Time) bool {
	return a == b || a != nil && b != nil && db.Instant(*a).Equal(db.Instant(*b))
}

// Apply applies what redirects depend on: the URL and the settings. It cannot fail for a
// validated change.
func (c *Change) Apply(url *string, settings *routing.Settings) {
	c.URL.Apply(url)
	c.RedirectStatus.Apply(&settings.RedirectStatus)
	if !c.Routing.Set {
		return
	}
	if after := c.Routing.To.Merge(settings.Routing); !after.Equal(settings.Routing) {
		settings.Routing = after
	}
	settings.PasswordHash = c.Routing.To.PasswordHash(settings.PasswordHash)
}

// NeedsValidStates reports whether the pending changes of the link must be validated again after
// this change.
func (c *Change) NeedsValidStates() bool {
	return c.URL.Set || c.Routing.Set || c.RedirectStatus.Set || c.StartsAt.Set || c.ExpiresAt.Set || c.MaxClicks.Set
}

// DropNulls leaves out the fields that the change sets to no value.
func (c *Change) DropNulls() {
	for _, f := range Fields {
		if f.IsNull(c) {
			*f.IsSet(c) = false
		}
	}
}

// Names are the names of the fields that the change sets.
func (c *Change) Names() (names []string) {
	for _, f := range Fields {
		if *f.IsSet(c) {
			names = append(names, f.Name)
		}
	}
	return names
}

// Pairs returns the pairs of the metadata in the order of their keys.
func (v Values) Pairs() ([]*Pair, error) { return v.Metadata.Pairs() }

// Normal returns the values with texts in validate.Normal form, and with tags. Versions keep the form
// that texts had.
func (v Values) Normal() Values {
	for _, f := range Fields {
		if f.Text != nil && *f.Text(&v) != nil {
			*f.Text(&v) = new(validate.Normal(**f.Text(&v)))
		}
	}
	v.Metadata = Metadata(validate.Normal(string(v.Metadata)))
	tags := make([]string, 0, len(v.Tags))
	for _, tag := range v.Tags {
		tags = append(tags, validate.Normal(tag))
	}
	v.Tags = sorted(tags)
	return v
}

package linkfield

import (
	"reflect"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// Field is a field of links: how it is read, set and compared. Whoever handles all fields loops over
// Fields.
type Field struct {
	// Name is that of the API.
	Name string
	// Restricts means that the field limits which visitors receive the destination, or when, IsPlanned
	// that a scheduled change may set it.
	Restricts, IsPlanned bool
	// Value returns the value as versions and events show it.
	Value func(*Values) any
	// IsSame reports whether two links have the same value.
	IsSame func(a, b *Values) bool
	// IsSet is whether a change sets the field, and IsNull reports whether it sets it to no value.
	IsSet  func(*Change) *bool
	IsNull func(*Change) bool
	// Set checks and sets the value of a change, if it is set. It returns InvalidInput. Package link
	// sets URLs and routings, which depend on more.
	Set func(*Values, *Change) error
	// Normalize gives a change that sets the field the checked value.
	Normalize func(*Change, *Values)
}

// Fields are the fields in the order in which changes are listed.
var Fields = []Field{
	planned(setByLink("url", func(v *Values) *string { return &v.OriginalURL },
		func(c *Change) *optional.Edit[string] { return &c.URL })),
	planned(field("title", func(v *Values) **string { return &v.Title },
		func(c *Change) *optional.Edit[*string] { return &c.Title }, CheckTitle)),
	planned(field("note", func(v *Values) **string { return &v.Note },
		func(c *Change) *optional.Edit[*string] { return &c.Note }, CheckNote)),
	planned(shown(field("tags", func(v *Values) *[]string { return &v.Tags },
		func(c *Change) *optional.Edit[[]string] { return &c.Tags }, CheckTags),
		func(v *Values) any { return append([]string{}, v.Tags...) })),
	planned(field("folderId", func(v *Values) **string { return &v.FolderID },
		func(c *Change) *optional.Edit[*string] { return &c.FolderID }, unchecked)), // link.Store knows folders
	field("externalId", func(v *Values) **string { return &v.ExternalID },
		func(c *Change) *optional.Edit[*string] { return &c.ExternalID }, checkExternalID),
	field("metadata", func(v *Values) *Metadata { return &v.Metadata },
		func(c *Change) *optional.Edit[[]*Pair] { return &c.Metadata }, NewMetadata),
	field("archived", func(v *Values) *bool { return &v.Archived },
		func(c *Change) *optional.Edit[bool] { return &c.Archived }, unchecked),
	field("statsPublic", func(v *Values) *bool { return &v.StatsPublic },
		func(c *Change) *optional.Edit[bool] { return &c.StatsPublic }, unchecked),
	restricting(field("startsAt", func(v *Values) **time.Time { return &v.StartsAt },
		func(c *Change) *optional.Edit[*time.Time] { return &c.StartsAt }, unchecked)),
	restricting(field("expiresAt", func(v *Values) **time.Time { return &v.ExpiresAt },
		func(c *Change) *optional.Edit[*time.Time] { return &c.ExpiresAt }, unchecked)),
	restricting(field("maxClicks", func(v *Values) **int64 { return &v.MaxClicks },
		func(c *Change) *optional.Edit[*int64] { return &c.MaxClicks }, CheckMaxClicks)),
	planned(field("redirectStatus", func(v *Values) *int { return &v.RedirectStatus },
		func(c *Change) *optional.Edit[int] { return &c.RedirectStatus }, CheckRedirectStatus)),
	planned(setByLink("routing", func(v *Values) **routing.Routing { return &v.Routing },
		func(c *Change) *optional.Edit[*routing.Change] { return &c.Routing })),
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
		return err
	}
	return f
}

// setByLink defines a field that package link sets.
func setByLink[T, V any](name string, value func(*Values) *V, edit func(*Change) *optional.Edit[T]) Field {
	return Field{
		Name:   name,
		Value:  func(v *Values) any { return *value(v) },
		IsSame: func(a, b *Values) bool { return isSame(*value(a), *value(b)) },
		IsSet:  func(c *Change) *bool { return &edit(c).Set },
		IsNull: func(c *Change) bool { return edit(c).Set && isNil(edit(c).To) },
		Set:    func(*Values, *Change) error { return nil },
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

// CheckRedirectStatus checks the status of redirects. It returns InvalidInput.
func CheckRedirectStatus(status int) (int, error) {
	switch status {
	case 301, 302, 307, 308:
		return status, nil
	}
	return 0, errs.New(errs.InvalidInput, "redirectStatus must be 301, 302, 307 or 308.").At("redirectStatus")
}

// CheckMaxClicks checks a limit of redirects; nil means no limit. It returns InvalidInput.
func CheckMaxClicks(n *int64) (*int64, error) {
	if n != nil && *n < 1 {
		return nil, errs.New(errs.InvalidInput, "maxClicks must be at least 1.").At("maxClicks")
	}
	return n, nil
}

// CheckPeriod checks that a link starts before it expires; nil means unbounded. It returns
// InvalidInput.
func CheckPeriod(startsAt, expiresAt *time.Time) error {
	if startsAt != nil && expiresAt != nil && !startsAt.Before(*expiresAt) {
		return errs.New(errs.InvalidInput, "startsAt must be before expiresAt.").At("startsAt")
	}
	return nil
}

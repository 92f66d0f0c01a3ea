package errs

import "strconv"

// At is Error.At for an error that may be nil.
func At(err error, field ...string) error {
	if err == nil {
		return nil
	}
	return From(err).At(field...)
}

// Under is Error.Under for an error that may be nil.
func Under(err error, object ...string) error {
	if err == nil {
		return nil
	}
	return From(err).Under(object...)
}

// Most is how many errors of one input are collected.
const Most = 100

// All returns the errors of the checks of one input as one error, for the caller to fix at once:
// the first, whose Each are all of them, up to Most. What a look-up did not find counts only if there
// is nothing else. It returns nil if no check has failed, and the first error that is no user error
// alone.
func All(checks ...error) error {
	var found, unknown []*Error
	for _, err := range checks {
		if err == nil {
			continue
		}
		e := From(err)
		if !e.Kind.IsUserError() {
			return err
		}
		for _, one := range e.Each() {
			if one.Kind == NotFound {
				unknown = append(unknown, one)
			} else {
				found = append(found, one)
			}
		}
	}
	if len(found) == 0 {
		found = unknown
	}
	if len(found) == 0 {
		return nil
	}
	if len(found) == 1 && found[0].Others == nil {
		return found[0]
	}
	first := *found[0] // which other calls may share
	first.Others = found[1:min(len(found), Most)]
	return &first
}

// Map returns what a check returns for the elements of a list, and All their errors, each under the
// index of its element.
func Map[T, V any](list []T, check func(T) (V, error)) ([]V, error) {
	values, checks := make([]V, len(list)), make([]error, len(list))
	for i, one := range list {
		value, err := check(one)
		values[i], checks[i] = value, Under(err, strconv.Itoa(i))
	}
	return values, All(checks...)
}

// Each returns the error and the others of the same input, see All.
func (e *Error) Each() []*Error { return append([]*Error{e}, e.Others...) }

// Saved are the errors of an input as JSON: what their callers see.
type Saved []savedError

type savedError struct {
	Code    string   `json:"code"`
	Message string   `json:"message"`
	Field   []string `json:"field,omitempty"`
}

// Save returns the errors of an input, see All.
func Save(err error) (saved Saved) {
	for _, e := range From(err).Each() {
		saved = append(saved, savedError{Code: e.Kind.Code(), Message: e.Public(), Field: e.Field})
	}
	return saved
}

// Error returns the saved errors; nil for none.
func (s Saved) Error() error {
	checks := make([]error, 0, len(s))
	for _, e := range s {
		checks = append(checks, New(Coded(e.Code), "%s", e.Message).At(e.Field...))
	}
	return All(checks...)
}

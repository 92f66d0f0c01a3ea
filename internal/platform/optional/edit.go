package optional

// Edit is a change to one value. Without Set the value stays unchanged.
type Edit[T any] struct {
	Set bool
	To  T
}

// Set returns an edit that changes the value.
func Set[T any](to T) Edit[T] { return Edit[T]{Set: true, To: to} }

// Apply changes the value.
func (e Edit[T]) Apply(value *T) {
	if e.Set {
		*value = e.To
	}
}

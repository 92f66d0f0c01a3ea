// Package optional converts between zero values and nil pointers, the form of optional columns and
// GraphQL fields. Any package may call it.
package optional

// Of returns a pointer to the value, or nil for the zero value.
func Of[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// Value returns the value of the pointer, or the zero value for nil.
func Value[T any](pointer *T) (value T) {
	if pointer != nil {
		value = *pointer
	}
	return value
}

// Equal reports whether both pointers are nil, or point to equal values.
func Equal[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// Or returns the value of the pointer, or otherwise for nil.
func Or[T any](pointer *T, otherwise T) T {
	if pointer == nil {
		return otherwise
	}
	return *pointer
}

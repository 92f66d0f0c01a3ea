// Package memo declares the caches that nodes have in memory, which otter implements. A struct that
// has an otter.Cache itself would have the compiler translate all of otter in every package that
// imports the struct.
package memo

import (
	"context"

	"github.com/maypok86/otter/v2"
)

// Cache is the part of otter.Cache that Linkforge uses. It is safe for concurrent use.
type Cache[K comparable, V any] interface {
	// GetIfPresent returns the value of the key, and whether there is one.
	GetIfPresent(key K) (V, bool)
	// Get returns the value of the key. Concurrent calls for a missing key share one load.
	Get(ctx context.Context, key K, loader otter.Loader[K, V]) (V, error)
	// Set stores a value, and returns it and whether it is the key's first one; otherwise it
	// returns the previous one.
	Set(key K, value V) (V, bool)
	// SetIfAbsent is Set without an effect if the key has a value.
	SetIfAbsent(key K, value V) (V, bool)
	// Invalidate removes a value, also one that is being loaded.
	Invalidate(key K) (V, bool)
	// EstimatedSize is the number of values, WeightedSize their weight.
	EstimatedSize() int
	WeightedSize() uint64
	// CleanUp evicts what exceeds the bounds, as happens in the background otherwise.
	CleanUp()
}

// New returns an empty cache. It panics if the options are invalid.
func New[K comparable, V any](o *otter.Options[K, V]) Cache[K, V] { return otter.Must(o) }
